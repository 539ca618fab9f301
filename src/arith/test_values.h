// For tests only: random elements that visit the corners of every format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "arith/format.h"
#include "base/test_volume.h"

namespace tessera::arith {

inline constexpr std::uint64_t kTestSeed = 20240817;

// The long comparisons visit one value in this number. Odd numbers, so that steps through all
// patterns meet every low bit.
inline std::uint32_t visit_one_in() {
  return static_cast<std::uint32_t>(tessera::visit_one_in(5, 61));
}

using Random = std::mt19937_64;

// One element: uniformly random bits, a special value (zeros, smallest and largest subnormal and
// normal, infinities, NaN), a small integer, a number between -8 and 8, or a tie of a narrower
// format. Integers: uniformly random bits or an end of the range.
std::uint64_t random_bits(Format format, Random& random);

// `count` contiguous elements.
std::vector<std::byte> random_elements(Format format, std::int64_t count, Random& random);

// The same without NaN and infinity.
std::vector<std::byte> random_finite_elements(Format format, std::int64_t count, Random& random);

}  // namespace tessera::arith
