#include "transport/memory_pool.h"

#include <bit>
#include <cstdint>
#include <utility>

namespace tessera::transport {
namespace {

constexpr std::size_t kKeptFrom = std::size_t{32} << 10;  // smaller ones are the allocator's work

constexpr std::size_t kLine = 64;  // blocks begin at one

std::size_t size_class(std::size_t bytes) {
  return bytes < kKeptFrom ? bytes : std::bit_ceil(bytes);
}

}  // namespace

MemoryPool::Block MemoryPool::take(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  if (size >= kKeptFrom) {
    const std::lock_guard lock(mutex_);
    const auto found = kept_.find(size);
    if (found != kept_.end() && !found->second.empty()) {
      Block block = std::move(found->second.back());
      found->second.pop_back();
      kept_bytes_ -= size;
      return block;
    }
  }
  return std::make_unique_for_overwrite<std::byte[]>(size);
}

void MemoryPool::give_back(Block block, std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  if (size < kKeptFrom) return;
  const std::lock_guard lock(mutex_);
  if (kept_bytes_ + size > kept_bytes_max_) return;
  kept_bytes_ += size;
  kept_[size].push_back(std::move(block));
}

HeldMemory::HeldMemory(std::shared_ptr<MemoryPool> pool, std::size_t bytes,
                       std::function<void()> on_release)
    : pool_(std::move(pool)),
      bytes_(bytes),
      block_(bytes == 0 ? nullptr : pool_->take(bytes + kLine)),
      on_release_(std::move(on_release)) {}

std::byte* HeldMemory::data() {
  const auto address = reinterpret_cast<std::uintptr_t>(block_.get());
  return block_.get() + (kLine - address % kLine) % kLine;
}

HeldMemory::~HeldMemory() {
  if (block_) pool_->give_back(std::move(block_), bytes_ + kLine);
  if (on_release_) on_release_();
}

}  // namespace tessera::transport
