#include "memory/block_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tessera::memory {
namespace {

constexpr std::uint64_t kFirstBase = 1 << 16;  // no block at 0, the unset address

}  // namespace

BlockPool::BlockPool(Bytes capacity, Bytes granule)
    : capacity_(capacity), granule_(granule), next_base_(kFirstBase) {
  TESSERA_CHECK(granule.value > 0, "a granule of {} bytes", granule.value);
}

bool BlockPool::take_unused(std::int64_t rounded, std::int64_t largest, Unused& taken) {
  const auto found = std::lower_bound(
      unused_.begin(), unused_.end(), rounded,
      [](const Unused& unused, std::int64_t size) { return unused.rounded < size; });
  if (found == unused_.end() || found->rounded > largest) return false;
  taken = *found;
  unused_.erase(found);
  counters_.unused.value -= taken.rounded;
  return true;
}

void BlockPool::drop_unused(std::int64_t most) {
  while (counters_.unused.value > most) {
    // The smallest that is enough, or the largest there is.
    const std::int64_t wanted = counters_.unused.value - most;
    auto found = std::lower_bound(
        unused_.begin(), unused_.end(), wanted,
        [](const Unused& unused, std::int64_t size) { return unused.rounded < size; });
    if (found == unused_.end()) --found;
    counters_.unused.value -= found->rounded;
    ++counters_.blocks_dropped;
    dropped_.push_back(found->place);
    unused_.erase(found);
  }
}

// For one block more, wherever it goes: giving blocks back then takes no memory, and cannot fail.
void BlockPool::reserve_lists() {
  const auto reserve = [](auto& list, std::size_t wanted) {
    if (wanted > list.capacity()) list.reserve(std::max(wanted, 2 * list.capacity()));
  };
  const std::size_t all = used_.size() + unused_.size() + 1;
  reserve(used_, used_.size() + 1);
  reserve(unused_, all);
  reserve(dropped_, dropped_.size() + all);
}

Result<BlockPool::Allocation> BlockPool::allocate(Bytes bytes) {
  const std::int64_t most = capacity_.value / granule_.value * granule_.value;
  if (bytes.value < 0 || bytes.value > most) {
    return Error{bytes.value < 0 ? ErrorCode::kInvalidArgument : ErrorCode::kDoesNotFit,
                 fmt::format("a block of {} bytes; the device's memory has {}", bytes.value,
                             capacity_.value)};
  }
  reserve_lists();
  const std::int64_t rounded = std::max(granule_.value, round_up(bytes.value, granule_.value));
  Unused reused;
  bool made = false;
  // A block up to twice as large is not worth fresh memory. A larger one would be in use whole, for
  // as long as this block is: it is rather given up.
  if (!take_unused(rounded, 2 * rounded, reused)) {
    made = true;
    const std::int64_t free = capacity_.value - counters_.used.value;
    if (free < rounded) {
      return Error{
          ErrorCode::kDoesNotFit,
          fmt::format("a block of {} bytes; {} of the device's {} bytes are free, {} are in "
                      "use; release blocks or use a device with more memory",
                      bytes.value, free, capacity_.value, counters_.used.value)};
    }
    drop_unused(free - rounded);
  }
  const PoolBlock block{next_base_, bytes};
  if (made) reused = {rounded, block.base};
  // Blocks never touch: what runs over the end of one is noticed.
  next_base_ += static_cast<std::uint64_t>(rounded + granule_.value);
  used_.push_back({block, reused.rounded, reused.place, 0, false, false});
  counters_.used.value += reused.rounded;
  ++(made ? counters_.blocks_made : counters_.blocks_reused);
  return Allocation{block, Bytes{reused.rounded}, made, reused.place};
}

BlockPool::Allocation BlockPool::adopt(Bytes bytes) {
  reserve_lists();
  const PoolBlock block{next_base_, bytes};
  const std::int64_t rounded = std::max(granule_.value, round_up(bytes.value, granule_.value));
  next_base_ += static_cast<std::uint64_t>(rounded + granule_.value);
  used_.push_back({block, 0, block.base, 0, false, true});
  return {block, bytes, true, block.base};
}

const BlockPool::Used* BlockPool::find_used(std::uint64_t address) const {
  const auto after = std::upper_bound(
      used_.begin(), used_.end(), address,
      [](std::uint64_t wanted, const Used& used) { return wanted < used.block.base; });
  return after == used_.begin() ? nullptr : &*std::prev(after);
}

Status BlockPool::release(std::uint64_t base) {
  const Used* const found = find_used(base);
  if (found == nullptr || found->block.base != base || found->released) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("no block at device address {:#x} is allocated", base)};
  }
  Used& used = used_[static_cast<std::size_t>(found - used_.data())];
  if (used.holds > 0) {
    used.released = true;
    counters_.in_quarantine.value += used.rounded;
    ++counters_.blocks_quarantined;
    return {};
  }
  make_unused(used);
  return {};
}

Status BlockPool::discard(std::uint64_t base) {
  const Used* const found = find_used(base);
  if (found == nullptr || found->block.base != base || found->holds > 0) {
    return Error{ErrorCode::kInvalidArgument, fmt::format("no block at {:#x} to discard", base)};
  }
  counters_.used.value -= found->rounded;
  --counters_.blocks_made;
  used_.erase(used_.begin() + (found - used_.data()));
  return {};
}

void BlockPool::make_unused(const Used& used) {
  if (used.adopted) {
    dropped_.push_back(used.place);
    used_.erase(used_.begin() + (&used - used_.data()));
    return;
  }
  const Unused unused{used.rounded, used.place};
  const auto before = [](const Unused& a, const Unused& b) {
    return a.rounded != b.rounded ? a.rounded < b.rounded : a.place < b.place;
  };
  unused_.insert(std::lower_bound(unused_.begin(), unused_.end(), unused, before), unused);
  counters_.used.value -= used.rounded;
  counters_.unused.value += used.rounded;
  used_.erase(used_.begin() + (&used - used_.data()));
}

BlockPool::Used& BlockPool::held(std::uint64_t address) {
  const Used* const found = find_used(address);
  TESSERA_CHECK(found != nullptr, "no block at device address {:#x}", address);
  return used_[static_cast<std::size_t>(found - used_.data())];
}

void BlockPool::hold(std::uint64_t address) { ++held(address).holds; }

void BlockPool::drop_hold(std::uint64_t address) {
  Used& used = held(address);
  TESSERA_CHECK(used.holds > 0, "the block at {:#x} is not held", used.block.base);
  if (--used.holds > 0 || !used.released) return;
  counters_.in_quarantine.value -= used.rounded;
  make_unused(used);
}

Result<BlockPool::Place> BlockPool::find(std::uint64_t address, Bytes bytes) const {
  const Used* const found = find_used(address);
  if (found != nullptr && !found->released && bytes.value >= 0) {
    const std::uint64_t offset = address - found->block.base;
    const auto size = static_cast<std::uint64_t>(found->block.bytes.value);
    if (offset <= size && static_cast<std::uint64_t>(bytes.value) <= size - offset) {
      return Place{found->place, static_cast<std::int64_t>(offset)};
    }
  }
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("{} bytes at device address {:#x} do not lie in one block that is allocated",
                  bytes.value, address)};
}

void BlockPool::take_dropped(std::vector<std::uint64_t>& places) {
  places.assign(dropped_.begin(), dropped_.end());
  dropped_.clear();  // which keeps its room
}

}  // namespace tessera::memory
