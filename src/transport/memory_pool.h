// Memory for received buffers. Large blocks are kept for the next message: the system takes longer to
// give a page than the network to fill it.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "transport/message.h"

namespace tessera::transport {

// Thread-safe.
class MemoryPool {
 public:
  explicit MemoryPool(std::size_t kept_bytes_max) : kept_bytes_max_(kept_bytes_max) {}

  using Block = std::unique_ptr<std::byte[]>;
  // At least this many bytes; what is in them is anything.
  Block take(std::size_t bytes);
  void give_back(Block block, std::size_t bytes);

 private:
  std::mutex mutex_;
  const std::size_t kept_bytes_max_;
  std::size_t kept_bytes_ = 0;
  std::map<std::size_t, std::vector<Block>> kept_;  // by size
};

// One message's memory. Its destructor gives it back and says so.
class HeldMemory {
 public:
  // The pool is shared by all messages that came from it, since those may outlive the transport.
  HeldMemory(std::shared_ptr<MemoryPool> pool, std::size_t bytes, std::function<void()> on_release);
  HeldMemory(const HeldMemory&) = delete;
  ~HeldMemory();
  std::byte* data();  // at a multiple of 64

 private:
  std::shared_ptr<MemoryPool> pool_;
  std::size_t bytes_;
  MemoryPool::Block block_;
  std::function<void()> on_release_;
};

}  // namespace tessera::transport
