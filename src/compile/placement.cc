#include "compile/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/quantity.h"
#include "compile/life_index.h"

namespace tessera::compile {
namespace {

Life wish_of(const PlacedBlock& block) { return {block.wish_first, block.wish_last}; }
Life life_of(const PlacedBlock& block) { return {block.first, block.last}; }

// Blocks with an offset, by the time at which they are kept to themselves.
class Placed {
 public:
  Placed(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds)
      : blocks_(blocks), bounds_(bounds), index_(wishes(blocks)) {}

  // The lowest free offset for block `i` during `life`, or -1.
  std::int64_t lowest_fit(std::size_t i, Life life) {
    find_beside(life);
    std::int64_t at = 0;
    for (const std::size_t j : beside_) {
      const PlacedBlock& other = blocks_[j];
      if (other.offset >= at + blocks_[i].bytes) break;
      at = std::max(at, round_up(other.offset + other.bytes, bounds_.alignment));
    }
    return at + blocks_[i].bytes <= bounds_.capacity ? at : -1;
  }
  // Of the lowest and the highest free offset of each gap and, above all, the lowest one or also the
  // begins of banks: that whose banks hold the fewest of the blocks that live together with `i`; the
  // lowest of equal ones. -1: none is free.
  std::int64_t apart_fit(std::size_t i, Life life, bool begins_of_banks) {
    find_beside(life);
    const std::int64_t bytes = blocks_[i].bytes;
    std::int64_t best = -1, fewest = 0;
    const auto consider = [&](std::int64_t at) {
      const std::int64_t met = met_in_banks(i, at);
      if (best >= 0 && met >= fewest) return;
      best = at;
      fewest = met;
    };
    std::int64_t at = 0;
    for (const std::size_t j : beside_) {
      const std::int64_t highest = blocks_[j].offset - bytes;
      if (at <= highest) {
        consider(at);
        consider(highest / bounds_.alignment * bounds_.alignment);
      }
      at = std::max(at, round_up(blocks_[j].offset + blocks_[j].bytes, bounds_.alignment));
    }
    for (; at + bytes <= bounds_.capacity; at = next_bank(at)) {
      consider(at);
      if (!begins_of_banks) break;
    }
    return best;
  }
  void insert(std::size_t i, Life life) { index_.insert(i, life); }

 private:
  // In the order of their offsets.
  void find_beside(Life life) {
    beside_ = index_.find(life);
    std::sort(beside_.begin(), beside_.end(),
              [&](std::size_t a, std::size_t b) { return blocks_[a].offset < blocks_[b].offset; });
  }

  std::int64_t next_bank(std::int64_t at) const {
    return round_up((at / bounds_.bank_bytes + 1) * bounds_.bank_bytes, bounds_.alignment);
  }

  // Blocks that live together with `i` and share a bank with it at `at`. Those of one task count more:
  // one of them ends or begins with the other.
  std::int64_t met_in_banks(std::size_t i, std::int64_t at) const {
    constexpr std::int64_t kOfOneTask = 4;
    const PlacedBlock& block = blocks_[i];
    const std::int64_t first = at / bounds_.bank_bytes;
    const std::int64_t last = (at + block.bytes - 1) / bounds_.bank_bytes;
    std::int64_t met = 0;
    for (const std::size_t j : beside_) {
      const PlacedBlock& other = blocks_[j];
      if (!life_of(block).overlaps(life_of(other))) continue;
      if (other.offset / bounds_.bank_bytes > last) continue;
      if ((other.offset + other.bytes - 1) / bounds_.bank_bytes < first) continue;
      const bool of_one_task = block.first == other.first || block.first == other.last ||
                               block.last == other.first || block.last == other.last;
      met += of_one_task ? kOfOneTask : 1;
    }
    return met;
  }

  static std::vector<Life> wishes(const std::vector<PlacedBlock>& blocks) {
    std::vector<Life> lives;
    for (const PlacedBlock& block : blocks) lives.push_back(wish_of(block));
    return lives;
  }

  const std::vector<PlacedBlock>& blocks_;
  const MemoryBounds bounds_;
  LifeIndex index_;
  std::vector<std::size_t> beside_;
};

std::string out_of_bounds(const PlacedBlock& a, MemoryBounds bounds) {
  if (a.bytes == 0 || (a.offset >= 0 && a.offset % bounds.alignment == 0 &&
                       a.offset + a.bytes <= bounds.capacity)) {
    return {};
  }
  return fmt::format("'{}' at {} with {} bytes is out of {}", a.name, a.offset, a.bytes,
                     bounds.capacity);
}

std::string overlap_of(const PlacedBlock& a, const PlacedBlock& b) {
  if (a.bytes == 0 || b.bytes == 0 || !life_of(a).overlaps(life_of(b))) return {};
  if (a.offset >= b.offset + b.bytes || b.offset >= a.offset + a.bytes) return {};
  return fmt::format("'{}' and '{}' overlap at byte {}", a.name, b.name,
                     std::max(a.offset, b.offset));
}

// Early blocks first, then by bytes and life.
std::vector<std::size_t> order_of(const std::vector<PlacedBlock>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  const auto weight = [&](const PlacedBlock& b) {
    return static_cast<double>(b.bytes) * static_cast<double>(b.last - b.first + 1);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (blocks[a].early != blocks[b].early) return blocks[a].early;
    return weight(blocks[a]) > weight(blocks[b]);
  });
  return order;
}

struct Outcome {
  std::optional<std::size_t> failed;  // the block that found no room
  std::int64_t wishes = 0;            // blocks that are kept to themselves as they wish
  std::int64_t peak = 0;              // bytes
};

// Where a block goes of the offsets that are free.
enum class OffsetChoice : std::uint8_t { kLowest, kApart, kApartInBanks };

Outcome place_in_order(std::vector<PlacedBlock>& blocks, const std::vector<std::size_t>& order,
                       MemoryBounds bounds, OffsetChoice choice) {
  Placed placed(blocks, bounds);
  const auto fit_of = [&](std::size_t i, Life life) {
    return choice == OffsetChoice::kLowest
               ? placed.lowest_fit(i, life)
               : placed.apart_fit(i, life, choice == OffsetChoice::kApartInBanks);
  };
  Outcome outcome;
  for (const std::size_t i : order) {
    PlacedBlock& block = blocks[i];
    if (block.bytes == 0) {
      block.offset = 0;
      continue;
    }
    Life life = wish_of(block);
    block.offset = fit_of(i, life);
    if (block.offset >= 0) {
      ++outcome.wishes;
    } else {
      life = life_of(block);
      block.offset = fit_of(i, life);
    }
    if (block.offset < 0) {
      outcome.failed = i;
      return outcome;
    }
    outcome.peak = std::max(outcome.peak, block.offset + block.bytes);
    placed.insert(i, life);
  }
  return outcome;
}

}  // namespace

std::optional<std::size_t> place_blocks(std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  const std::vector<std::size_t> order = order_of(blocks);
  const Outcome lowest = place_in_order(blocks, order, bounds, OffsetChoice::kLowest);
  if (lowest.failed || bounds.bank_bytes == 0) return lowest.failed;
  // The room stays about what it was: other networks may want the rest.
  bounds.capacity =
      std::min(bounds.capacity, round_up(lowest.peak, bounds.bank_bytes) + bounds.bank_bytes);
  for (const OffsetChoice choice : {OffsetChoice::kApartInBanks, OffsetChoice::kApart}) {
    std::vector<PlacedBlock> apart = blocks;
    const Outcome outcome = place_in_order(apart, order, bounds, choice);
    if (outcome.failed || outcome.wishes < lowest.wishes) continue;
    blocks = std::move(apart);
    break;
  }
  return std::nullopt;
}

std::string find_overlap(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (auto found = out_of_bounds(blocks[i], bounds); !found.empty()) return found;
    for (std::size_t j = 0; j < i; ++j) {
      if (auto found = overlap_of(blocks[i], blocks[j]); !found.empty()) return found;
    }
  }
  return {};
}

std::string find_overlap_indexed(const std::vector<PlacedBlock>& blocks, MemoryBounds bounds) {
  std::vector<Life> lives;
  for (const PlacedBlock& block : blocks) lives.push_back(life_of(block));
  LifeIndex index(lives);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (auto found = out_of_bounds(blocks[i], bounds); !found.empty()) return found;
    for (const std::size_t j : index.find(lives[i])) {
      if (auto found = overlap_of(blocks[i], blocks[j]); !found.empty()) return found;
    }
    index.insert(i, lives[i]);
  }
  return {};
}

}  // namespace tessera::compile
