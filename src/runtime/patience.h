// Waiting for a condition, forever or for a time that may be longer than any clock can count.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace tessera::runtime {

// Longer is forever; a clock that has run for a while can still add it to its time.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365 * 100);

// With the lock held: until `condition`; false if it does not hold after `patience`.
template <typename Condition>
bool wait_on(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             std::chrono::nanoseconds patience, Condition condition) {
  if (patience >= kForever) {
    changed.wait(lock, condition);
    return true;
  }
  return changed.wait_for(lock, patience, condition);
}

}  // namespace tessera::runtime
