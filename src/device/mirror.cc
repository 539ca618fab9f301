#include "device/mirror.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::device {
namespace {

std::uint64_t address_of(const std::byte* host) { return reinterpret_cast<std::uintptr_t>(host); }

memory::HostRange range_of(std::span<const std::byte> host) {
  return {address_of(host.data()), Bytes{std::ssize(host)}};
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
  Owned owned;
  if (device_.properties().shared_memory) {
    // One block, of which the parts are pieces.
    TESSERA_TRY(const Block block, device_.allocate(Bytes{bytes}));
    TESSERA_TRY(owned.block.host, device_.host_view(block.base, block.bytes));
    Address next = block.base;
    for (const Bytes part : parts) {
      owned.block.parts.push_back({next, part});
      next = next + part;
    }
  } else {
    for (const Bytes part : parts) {
      const auto block = device_.allocate(part);
      if (!block.ok()) {
        TESSERA_RETURN_IF_ERROR(release_parts(owned.block));
        return block.error();
      }
      owned.block.parts.push_back(*block);
    }
    owned.bytes = std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes));
    owned.block.host = {owned.bytes.get(), static_cast<std::size_t>(bytes)};
  }
  std::vector<memory::Block> blocks;
  for (const Block& part : owned.block.parts) blocks.push_back({part.base.value, part.bytes});
  const std::lock_guard lock(mutex_);
  const Status mapped = map_.map(range_of(owned.block.host), blocks);
  if (!mapped.ok()) {
    TESSERA_RETURN_IF_ERROR(release_parts(owned.block));
    return mapped.error();
  }
  owned_.push_back(std::move(owned));
  return owned_.back().block;
}

Status Mirror::release_parts(const MirroredBlock& block) {
  for (const Block& part : block.parts) {
    TESSERA_RETURN_IF_ERROR(device_.release(part));
    if (device_.properties().shared_memory) break;  // the first part's base is the block's
  }
  return {};
}

Status Mirror::release(const MirroredBlock& block) {
  const std::lock_guard lock(mutex_);
  TESSERA_RETURN_IF_ERROR(map_.unmap(address_of(block.host.data())));
  const auto owned = std::find_if(owned_.begin(), owned_.end(), [&](const Owned& candidate) {
    return candidate.block.host.data() == block.host.data();
  });
  TESSERA_CHECK(owned != owned_.end(), "a mapped block that is not owned");
  TESSERA_RETURN_IF_ERROR(release_parts(owned->block));
  owned_.erase(owned);
  return {};
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

}  // namespace tessera::device
