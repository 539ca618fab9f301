// When a time from now is over.
#pragma once

#include <algorithm>
#include <chrono>

namespace tessera {

// A negative time is over now; one without an end ends in ten years, which every clock can count to.
inline std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24 * 3650);
  return std::chrono::steady_clock::now() +
         std::clamp(time, std::chrono::milliseconds(0), kLongest);
}

// What is left until it, rounded up so that waiting for it suffices; at least 0.
inline std::chrono::milliseconds time_until(std::chrono::steady_clock::time_point deadline) {
  const auto left = deadline - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), std::chrono::milliseconds(0));
}

}  // namespace tessera
