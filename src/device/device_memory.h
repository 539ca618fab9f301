// The memory of a device: real bytes behind the addresses of a pool of blocks.
//
// Any thread may call at any time; two that touch the same bytes at once are the callers' mistake.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "memory/block_pool.h"

namespace tessera::device {

class DeviceMemory {
 public:
  // An owner of adopted memory, or an object kept by a run, in the list of those to be released or
  // of places for more.
  struct Owner {
    std::shared_ptr<void> owner;  // shared with other users of the bytes
    std::unique_ptr<Owner> next;
  };
  using Owners = std::unique_ptr<Owner>;

  // `clears`: a block that is used again holds zeros, as one that is new does.
  explicit DeviceMemory(Bytes capacity, bool clears = false) : pool_(capacity), clears_(clears) {}
  ~DeviceMemory();

  Result<memory::PoolBlock> allocate(Bytes bytes);
  // An address for adopted bytes. `owner` is released when the block is released and no
  // run holds it any more; not before bury().
  memory::PoolBlock adopt(std::span<std::byte> bytes, std::shared_ptr<void> owner);
  Status release(std::uint64_t base);
  void trim();  // as the pool's
  // An object released with the owners, after end(), which takes no memory.
  Owners keep(std::shared_ptr<void> owner);
  void end(Owners& kept);
  // Lets go of the owners whose blocks have ended. What that calls is not the device's: without
  // any lock of the device's.
  void bury();
  bool anything_to_bury() const { return any_ended_.load(std::memory_order_relaxed); }
  // The bytes at an address, which lie in one block.
  Result<std::span<std::byte>> view(std::uint64_t address, Bytes bytes) const;
  // The same for a run, which holds the block from now on. Nothing is held after an error.
  Result<std::span<std::byte>> hold(std::uint64_t address, Bytes bytes);
  void drop_hold(std::uint64_t address);

  memory::PoolCounters counters() const;
  Bytes capacity() const { return pool_.capacity(); }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  static void move_first(Owners& from, Owners& to);
  static void end_list(Owners& owners);
  struct Storage {
    std::uint64_t place = 0;
    std::unique_ptr<std::byte, Free> own;  // null: adopted
    std::byte* bytes = nullptr;
    Owners owner;  // of what is adopted
  };
  void drop_storages();
  Status add_storage(const memory::BlockPool::Allocation& allocation);
  Result<std::span<std::byte>> view_locked(std::uint64_t address, Bytes bytes) const;

  mutable std::mutex mutex_;
  memory::BlockPool pool_;
  const bool clears_;
  std::vector<Storage> storages_;  // by place: places ascend as they are made
  std::vector<std::uint64_t> dropped_;
  Owners ended_, spare_;
  std::atomic<bool> any_ended_{false};
};

}  // namespace tessera::device
