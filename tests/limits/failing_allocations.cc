#include "failing_allocations.h"

#include <atomic>
#include <limits>

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

std::atomic<std::int64_t> taken{0};  // allocations of the scenario
std::atomic<std::int64_t> live{0};   // not released
std::atomic<std::int64_t> first_failing{kNever}, last_failing{kNever};

struct OwnAllocations {
  static bool fails() {
    const std::int64_t number = taken.fetch_add(1, std::memory_order_relaxed) + 1;
    return number >= first_failing.load(std::memory_order_relaxed) &&
           number <= last_failing.load(std::memory_order_relaxed);
  }
  static void made(void* /*block*/) { live.fetch_add(1, std::memory_order_relaxed); }
  static void gone(void* /*block*/) { live.fetch_sub(1, std::memory_order_relaxed); }
};

}  // namespace

#include "base/testing/own_allocations.h"

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
