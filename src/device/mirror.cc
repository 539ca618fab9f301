#include "device/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"

namespace tessera::device {
namespace {

std::uint64_t address_of(const std::byte* host) { return reinterpret_cast<std::uintptr_t>(host); }

memory::HostRange range_of(std::span<const std::byte> host) {
  return {address_of(host.data()), Bytes{std::ssize(host)}};
}

// They take no memory before somebody looks at them: what stays on the device needs none.
std::shared_ptr<void> zeros(Bytes bytes) {
  void* const memory = std::calloc(static_cast<std::size_t>(bytes.value), 1);
  return memory == nullptr ? nullptr : std::shared_ptr<void>(memory, std::free);
}

Error no_memory(Bytes bytes) {
  return {ErrorCode::kUnavailable,
          fmt::format("this machine has no memory for a block of {} bytes", bytes.value)};
}

}  // namespace

Mirror::~Mirror() {
  for (const Owned& owned : owned_) {
    const Status released = release_parts(owned.block);
    TESSERA_CHECK(released.ok(), "{}", released.error().message);
  }
}

Result<MirroredBlock> Mirror::allocate(std::span<const Bytes> parts) {
  std::int64_t bytes = 0;
  for (const Bytes part : parts) bytes += part.value;
  MirroredBlock made;
  if (device_.properties().shared_memory) {
    // One block, of which the parts are pieces.
    TESSERA_TRY(const Block block, device_.allocate(Bytes{bytes}));
    TESSERA_TRY(made.host, device_.host_view(block.base, block.bytes));
    Address next = block.base;
    for (const Bytes part : parts) {
      made.parts.push_back({next, part});
      next = next + part;
    }
    return keep(std::move(made), nullptr);
  }
  for (const Bytes part : parts) {
    const auto block = device_.allocate(part);
    if (!block.ok()) {
      TESSERA_RETURN_IF_ERROR(release_parts(made));
      return block.error();
    }
    made.parts.push_back(*block);
  }
  std::shared_ptr<void> host = zeros(Bytes{bytes});
  if (host == nullptr) {
    TESSERA_RETURN_IF_ERROR(release_parts(made));
    return no_memory(Bytes{bytes});
  }
  made.host = {static_cast<std::byte*>(host.get()), static_cast<std::size_t>(bytes)};
  return keep(std::move(made), std::move(host));
}

Result<MirroredBlock> Mirror::take_over(const Block& block) {
  MirroredBlock made{{}, {block}};
  if (device_.properties().shared_memory) {
    TESSERA_TRY(made.host, device_.host_view(block.base, block.bytes));
    return keep(std::move(made), nullptr);
  }
  std::shared_ptr<void> host = zeros(block.bytes);
  if (host == nullptr) {
    TESSERA_RETURN_IF_ERROR(release_parts(made));
    return no_memory(block.bytes);
  }
  made.host = {static_cast<std::byte*>(host.get()), static_cast<std::size_t>(block.bytes.value)};
  TESSERA_TRY(MirroredBlock kept, keep(std::move(made), std::move(host)));
  TESSERA_RETURN_IF_ERROR(ran(kept.host));
  return kept;
}

Result<MirroredBlock> Mirror::map(std::span<std::byte> host, std::shared_ptr<void> owner) {
  MirroredBlock made{host, {}};
  if (device_.properties().shared_memory) {
    TESSERA_TRY(const Block block, device_.adopt(host, std::move(owner)));
    made.parts.push_back(block);
    return keep(std::move(made), nullptr);
  }
  TESSERA_TRY(const Block block, device_.allocate(Bytes{std::ssize(host)}));
  made.parts.push_back(block);
  TESSERA_TRY(MirroredBlock kept, keep(std::move(made), std::move(owner)));
  TESSERA_RETURN_IF_ERROR(wrote(host));
  return kept;
}

Result<MirroredBlock> Mirror::keep(MirroredBlock block, std::shared_ptr<void> owner) {
  std::vector<memory::Block> blocks;
  for (const Block& part : block.parts) blocks.push_back({part.base.value, part.bytes});
  Status mapped;
  {
    const std::lock_guard lock(mutex_);
    mapped = map_.map(range_of(block.host), blocks);
    if (mapped.ok()) owned_.push_back({block, std::move(owner)});
  }
  if (mapped.ok()) return block;
  TESSERA_RETURN_IF_ERROR(release_parts(block));
  return mapped.error();
}

Status Mirror::release_parts(const MirroredBlock& block) {
  for (const Block& part : block.parts) {
    TESSERA_RETURN_IF_ERROR(device_.release(part));
    if (device_.properties().shared_memory) break;  // the first part's base is the block's
  }
  return {};
}

Status Mirror::release(const MirroredBlock& block) {
  Owned gone;  // goes without the lock: owners may call anything
  {
    const std::lock_guard lock(mutex_);
    TESSERA_RETURN_IF_ERROR(map_.unmap(address_of(block.host.data())));
    const auto owned = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& candidate) {
      return candidate.block.host.data() == block.host.data();
    });
    TESSERA_CHECK(owned != owned_.end(), "a mapped block that is not owned");
    gone = std::move(*owned);
    owned_.erase(owned);
  }
  return release_parts(gone.block);
}

Result<Address> Mirror::translate(const std::byte* host) const {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(const memory::DevicePlace place, map_.translate(address_of(host)));
  return Address{place.address()};
}

Status Mirror::wrote(std::span<const std::byte> host) {
  if (device_.properties().shared_memory) return {};
  const std::lock_guard lock(mutex_);
  return map_.note_host_write(range_of(host));
}

Status Mirror::ran(std::span<const std::byte> host) {
  if (device_.properties().shared_memory) return {};
  const std::lock_guard lock(mutex_);
  return map_.note_device_write(range_of(host));
}

Status Mirror::move(std::span<const std::byte> host, const std::vector<memory::Transfer>& transfers,
                    const TransferTag& tag) {
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    const memory::Transfer& transfer = transfers[i];
    const auto bytes = host.subspan(transfer.host - address_of(host.data()),
                                    static_cast<std::size_t>(transfer.bytes.value));
    // The mirror owns the bytes; its callers name them by what they may see.
    const Status moved =
        transfer.to_device
            ? device_.write({transfer.device}, bytes, tag)
            : device_.read({transfer.device}, {const_cast<std::byte*>(bytes.data()), bytes.size()},
                           tag);
    if (moved.ok()) continue;
    const std::lock_guard lock(mutex_);
    map_.put_back(std::span(transfers).subspan(i));
    return moved;
  }
  return {};
}

Status Mirror::to_device(std::span<const std::byte> host, const TransferTag& tag) {
  const std::lock_guard moving(moving_to_device_);
  std::vector<memory::Transfer> transfers;
  {
    const std::lock_guard lock(mutex_);
    TESSERA_TRY(transfers, map_.make_device_current(range_of(host)));
  }
  return move(host, transfers, tag);
}

Status Mirror::to_host(std::span<const std::byte> host, const TransferTag& tag) {
  const std::lock_guard moving(moving_to_host_);
  std::vector<memory::Transfer> transfers;
  {
    const std::lock_guard lock(mutex_);
    TESSERA_TRY(transfers, map_.make_host_current(range_of(host)));
  }
  return move(host, transfers, tag);
}

Status Mirror::read(std::span<const std::byte> host, std::span<std::byte> to,
                    const TransferTag& tag) {
  TESSERA_CHECK(host.size() == to.size(), "{} bytes read to {}", host.size(), to.size());
  const std::lock_guard moving(moving_to_host_);
  std::vector<memory::Transfer> transfers;
  {
    const std::lock_guard lock(mutex_);
    TESSERA_TRY(transfers, map_.newer_on_device(range_of(host)));
  }
  std::int64_t moved = 0;
  for (const memory::Transfer& transfer : transfers) moved += transfer.bytes.value;
  // Blocks are read whole: mostly all of it is on one side.
  if (moved < std::ssize(host)) std::copy(host.begin(), host.end(), to.begin());
  for (const memory::Transfer& transfer : transfers) {
    const auto first = static_cast<std::size_t>(transfer.host - address_of(host.data()));
    TESSERA_RETURN_IF_ERROR(device_.read(
        {transfer.device}, to.subspan(first, static_cast<std::size_t>(transfer.bytes.value)), tag));
  }
  return {};
}

}  // namespace tessera::device
