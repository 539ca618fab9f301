#include "device/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/guarded.h"

namespace tessera::device {
namespace {

constexpr std::size_t kAlignment = 64;  // a cache line, and what vector loads like

}  // namespace

DeviceMemory::~DeviceMemory() {
  end_list(ended_);
  end_list(spare_);
}

void DeviceMemory::move_first(Owners& from, Owners& to) {
  Owners first = std::move(from);
  from = std::move(first->next);
  first->next = std::move(to);
  to = std::move(first);
}

// One after the other, however many there are.
void DeviceMemory::end_list(Owners& owners) {
  while (owners != nullptr) owners = std::move(owners->next);
}

// Takes no memory: a release must not need any.
void DeviceMemory::drop_storages() {
  pool_.take_dropped(dropped_);
  for (const std::uint64_t place : dropped_) {
    const auto storage = std::lower_bound(
        storages_.begin(), storages_.end(), place,
        [](const Storage& candidate, std::uint64_t wanted) { return candidate.place < wanted; });
    TESSERA_CHECK(storage != storages_.end() && storage->place == place, "no memory at {:#x}",
                  place);
    if (storage->owner != nullptr) {
      move_first(storage->owner, ended_);
      any_ended_.store(true, std::memory_order_relaxed);
    }
    storages_.erase(storage);
  }
}

Status DeviceMemory::add_storage(const memory::BlockPool::Allocation& allocation) {
  drop_storages();
  if (!allocation.made) return {};
  const auto bytes = static_cast<std::size_t>(allocation.rounded.value);
  Storage storage{allocation.place,
                  std::unique_ptr<std::byte, Free>(
                      static_cast<std::byte*>(std::aligned_alloc(kAlignment, bytes))),
                  nullptr,
                  {}};
  storage.bytes = storage.own.get();
  if (storage.bytes == nullptr) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("this machine has no memory for a block of {} bytes", bytes)};
  }
  std::fill_n(storage.bytes, bytes, std::byte{0});
  storages_.push_back(std::move(storage));
  return {};
}

memory::PoolBlock DeviceMemory::adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner) {
  const std::lock_guard lock(mutex_);
  if (storages_.size() == storages_.capacity()) storages_.reserve(2 * storages_.size() + 16);
  if (spare_ == nullptr) spare_ = std::make_unique<Owner>();
  dropped_.reserve(storages_.capacity());
  const auto allocation = pool_.adopt(Bytes{std::ssize(bytes)});
  storages_.push_back({allocation.place, nullptr, bytes.data(), nullptr});
  move_first(spare_, storages_.back().owner);
  storages_.back().owner->owner = std::move(owner);
  return allocation.block;
}

DeviceMemory::Owners DeviceMemory::keep(std::shared_ptr<void> owner) {
  const std::lock_guard lock(mutex_);
  if (spare_ == nullptr) spare_ = std::make_unique<Owner>();
  Owners kept;
  move_first(spare_, kept);
  kept->owner = std::move(owner);
  return kept;
}

void DeviceMemory::end(Owners& kept) {
  if (kept == nullptr) return;
  const std::lock_guard lock(mutex_);
  move_first(kept, ended_);
  any_ended_.store(true, std::memory_order_relaxed);
}

void DeviceMemory::bury() {
  if (!anything_to_bury()) return;
  Owners ended;
  {
    const std::lock_guard lock(mutex_);
    ended.swap(ended_);
    any_ended_.store(false, std::memory_order_relaxed);
  }
  for (Owner* one = ended.get(); one != nullptr; one = one->next.get()) one->owner.reset();
  const std::lock_guard lock(mutex_);
  while (ended != nullptr) move_first(ended, spare_);
}

Result<memory::PoolBlock> DeviceMemory::allocate(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (storages_.size() == storages_.capacity()) storages_.reserve(2 * storages_.size() + 16);
  dropped_.reserve(storages_.capacity());
  TESSERA_TRY(const auto allocation, pool_.allocate(bytes));
  const Status added = guarded("", [&] { return add_storage(allocation); });
  if (!added.ok()) {
    // The pool never hands out what has no bytes.
    TESSERA_CHECK(pool_.discard(allocation.block.base).ok(), "a block that was just made");
    return added.error();
  }
  if (clears_ && !allocation.made) {
    TESSERA_TRY(const std::span<std::byte> bytes,
                view_locked(allocation.block.base, allocation.block.bytes));
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  return allocation.block;
}

Status DeviceMemory::release(std::uint64_t base) {
  const std::lock_guard lock(mutex_);
  const Status released = pool_.release(base);
  drop_storages();
  return released;
}

void DeviceMemory::trim() {
  const std::lock_guard lock(mutex_);
  pool_.trim();
  drop_storages();
}

Result<std::span<std::byte>> DeviceMemory::view_locked(std::uint64_t address, Bytes bytes) const {
  TESSERA_TRY(const auto found, pool_.find(address, bytes));
  const auto storage = std::lower_bound(
      storages_.begin(), storages_.end(), found.place,
      [](const Storage& candidate, std::uint64_t place) { return candidate.place < place; });
  TESSERA_CHECK(storage != storages_.end() && storage->place == found.place,
                "no memory behind the block at {:#x}", address);
  return std::span<std::byte>{storage->bytes + found.offset, static_cast<std::size_t>(bytes.value)};
}

Result<std::span<std::byte>> DeviceMemory::view(std::uint64_t address, Bytes bytes) const {
  const std::lock_guard lock(mutex_);
  return view_locked(address, bytes);
}

Result<std::span<std::byte>> DeviceMemory::hold(std::uint64_t address, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  TESSERA_TRY(const std::span<std::byte> view, view_locked(address, bytes));
  pool_.hold(address);
  return view;
}

void DeviceMemory::drop_hold(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  pool_.drop_hold(address);
  drop_storages();
}

memory::PoolCounters DeviceMemory::counters() const {
  const std::lock_guard lock(mutex_);
  return pool_.counters();
}

}  // namespace tessera::device
