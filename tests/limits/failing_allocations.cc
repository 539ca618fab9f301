#include "failing_allocations.h"

#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<std::int64_t> taken{0};  // allocations of the scenario
std::atomic<std::int64_t> live{0};   // not given back
std::atomic<std::int64_t> first_failing{kNever}, last_failing{kNever};

bool fails() {
  const std::int64_t number = taken.fetch_add(1, std::memory_order_relaxed) + 1;
  return number >= first_failing.load(std::memory_order_relaxed) &&
         number <= last_failing.load(std::memory_order_relaxed);
}

void* counted(void* memory) {
  if (memory != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

void give_back(void* memory) {
  if (memory != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(memory);
}

void* allocate(std::size_t bytes) {
  return fails() ? nullptr : counted(std::malloc(bytes == 0 ? 1 : bytes));
}

void* allocate_aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto multiple = static_cast<std::size_t>(alignment);
  const std::size_t rounded = (bytes + multiple - 1) / multiple * multiple;
  return fails() ? nullptr
                 : counted(std::aligned_alloc(multiple, rounded == 0 ? multiple : rounded));
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new[](std::size_t bytes) { return or_throw(allocate(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return or_throw(allocate_aligned(bytes, alignment));
}
void operator delete(void* p) noexcept { give_back(p); }
void operator delete[](void* p) noexcept { give_back(p); }
void operator delete(void* p, std::size_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t) noexcept { give_back(p); }
void operator delete(void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::align_val_t) noexcept { give_back(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { give_back(p); }

namespace tessera::limits {

std::int64_t count_allocations(const std::function<void()>& run) {
  const std::int64_t before = taken;
  run();
  return taken - before;
}

std::int64_t live_allocations() { return live; }

void run_with_failing_allocations(std::int64_t first, std::int64_t count,
                                  const std::function<void()>& run) {
  const std::int64_t before = taken;
  last_failing = before + first + count - 1;
  first_failing = before + first;
  run();
  first_failing = kNever;
  last_failing = kNever;
}

}  // namespace tessera::limits
