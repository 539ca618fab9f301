// The memory of a device: real bytes behind the addresses of a pool of blocks.
//
// Any thread may call at any time; two that touch the same bytes at once are the callers' mistake.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "memory/block_pool.h"

namespace tessera::device {

class DeviceMemory {
 public:
  explicit DeviceMemory(Bytes capacity) : pool_(capacity) {}

  Result<memory::Block> allocate(Bytes bytes);
  Status release(std::uint64_t base);
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
  struct Storage {
    std::uint64_t place = 0;
    std::unique_ptr<std::byte, Free> bytes;
  };
  Status add_storage(const memory::BlockPool::Allocation& allocation);
  Result<std::span<std::byte>> view_locked(std::uint64_t address, Bytes bytes) const;

  mutable std::mutex mutex_;
  memory::BlockPool pool_;
  std::vector<Storage> storages_;  // by place: places ascend as they are made
};

}  // namespace tessera::device
