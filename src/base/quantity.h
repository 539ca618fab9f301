// Quantities that must not be mixed up: a time, a number of bytes.
#pragma once

#include <cstdint>

namespace tessera {

// A point in time or a duration, in core clock cycles.
using Cycles = std::int64_t;
inline constexpr Cycles kNever = INT64_MAX;

// A number of bytes (strong, so that it is never taken for a count of elements).
struct Bytes {
  std::int64_t value = 0;
  friend auto operator<=>(const Bytes&, const Bytes&) = default;
  friend Bytes operator+(Bytes a, Bytes b) { return {a.value + b.value}; }
  friend Bytes operator-(Bytes a, Bytes b) { return {a.value - b.value}; }
  friend Bytes operator*(Bytes a, std::int64_t n) { return {a.value * n}; }
};

// ceil(a / b) for a >= 0, b > 0.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
constexpr std::int64_t round_up(std::int64_t a, std::int64_t b) { return ceil_div(a, b) * b; }

}  // namespace tessera
