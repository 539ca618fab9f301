#include "device/mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/guarded.h"

namespace tessera::device {
namespace {

std::uint64_t address_of(const std::byte* host) { return reinterpret_cast<std::uintptr_t>(host); }

memory::HostRange range_of(std::span<const std::byte> host) {
  return {address_of(host.data()), Bytes{std::ssize(host)}};
}

// They take no memory before they are read: what stays on the device needs none.
Result<std::shared_ptr<void>> zeros(Bytes bytes) {
  void* const memory = std::calloc(static_cast<std::size_t>(bytes.value), 1);
  if (memory != nullptr) return std::shared_ptr<void>(memory, std::free);
  return Error{ErrorCode::kUnavailable,
               fmt::format("this machine has no memory for a block of {} bytes", bytes.value)};
}

std::span<std::byte> bytes_of(const std::shared_ptr<void>& memory, Bytes bytes) {
  return {static_cast<std::byte*>(memory.get()), static_cast<std::size_t>(bytes.value)};
}

}  // namespace

Mirror::~Mirror() {
  for (const Owned& owned : owned_) {
    const Status released = release_parts(owned.block);
    TESSERA_CHECK(released.ok(), "{}", released.error().message);
  }
}

// make() gives `made` its parts and has it kept; where that fails they go back to the device.
template <typename Make>
Result<MirroredBlock> Mirror::make_block(const Make& make) {
  MirroredBlock made;
  const Status status = guarded("", [&] { return make(made); });
  if (status.ok()) return made;
  TESSERA_RETURN_IF_ERROR(release_parts(made));
  return status.error();
}

Result<MirroredBlock> Mirror::allocate(std::span<const Bytes> parts) {
  Bytes bytes;
  for (const Bytes part : parts) bytes.value += part.value;
  return make_block([&](MirroredBlock& made) -> Status {
    made.parts.reserve(parts.size());
    if (device_.properties().shared_memory) {
      // One block, of which the parts are pieces.
      TESSERA_TRY(const MemoryBlock block, device_.allocate(bytes));
      Address next = block.base;
      for (const Bytes part : parts) {
        made.parts.push_back({next, part});
        next = next + part;
      }
      TESSERA_TRY(made.host, device_.host_view(block.base, block.bytes));
      return keep(made, nullptr);
    }
    for (const Bytes part : parts) {
      TESSERA_TRY(const MemoryBlock block, device_.allocate(part));
      made.parts.push_back(block);
    }
    TESSERA_TRY(std::shared_ptr<void> host, zeros(bytes));
    made.host = bytes_of(host, bytes);
    return keep(made, std::move(host));
  });
}

Result<MirroredBlock> Mirror::take_over(const MemoryBlock& block) {
  // Also where there is no memory for an error's text.
  struct Released {
    Device& device;
    const MemoryBlock& block;
    bool taken = false;
    ~Released() {
      if (!taken) (void)device.release(block);
    }
  } otherwise{device_, block};
  return make_block([&](MirroredBlock& made) -> Status {
    made.parts.push_back(block);
    otherwise.taken = true;
    if (device_.properties().shared_memory) {
      TESSERA_TRY(made.host, device_.host_view(block.base, block.bytes));
      return keep(made, nullptr);
    }
    TESSERA_TRY(std::shared_ptr<void> host, zeros(block.bytes));
    made.host = bytes_of(host, block.bytes);
    return keep(made, std::move(host), Newer::kDevice);
  });
}

Result<MirroredBlock> Mirror::map(std::span<std::byte> host, std::shared_ptr<void> owner) {
  return make_block([&](MirroredBlock& made) -> Status {
    made.host = host;
    made.parts.reserve(1);
    if (device_.properties().shared_memory) {
      TESSERA_TRY(const MemoryBlock block, device_.adopt(host, std::move(owner)));
      made.parts.push_back(block);
      return keep(made, nullptr);
    }
    TESSERA_TRY(const MemoryBlock block, device_.allocate(Bytes{std::ssize(host)}));
    made.parts.push_back(block);
    return keep(made, std::move(owner), Newer::kHost);
  });
}

// It is either kept whole or not at all.
Status Mirror::keep(const MirroredBlock& block, std::shared_ptr<void> owner, Newer newer) {
  std::vector<memory::PoolBlock> blocks;
  for (const MemoryBlock& part : block.parts) blocks.push_back({part.base.value, part.bytes});
  Owned owned{block, std::move(owner)};
  const memory::HostRange range = range_of(block.host);
  const std::lock_guard lock(mutex_);
  if (owned_.size() == owned_.capacity()) owned_.reserve(2 * owned_.size() + 4);
  TESSERA_RETURN_IF_ERROR(map_.map(range, blocks));
  const Status noted = guarded("", [&]() -> Status {
    if (newer == Newer::kHost) return map_.note_host_write(range);
    if (newer == Newer::kDevice) return map_.note_device_write(range);
    return {};
  });
  if (!noted.ok()) {
    TESSERA_CHECK(map_.unmap(range.address).ok(), "a block that was just mapped");
    return noted;
  }
  owned_.push_back(std::move(owned));
  return {};
}

Status Mirror::release_parts(const MirroredBlock& block) {
  for (const MemoryBlock& part : block.parts) {
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
    const Status moved = guarded("", [&] {
      return transfer.to_device
                 ? device_.write({transfer.device}, bytes, tag)
                 : device_.read({transfer.device},
                                {const_cast<std::byte*>(bytes.data()), bytes.size()}, tag);
    });
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
