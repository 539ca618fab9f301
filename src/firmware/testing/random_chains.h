// Firmware texts at random, from a seed: chains of every kind on volumes of any shape. Each
// assembles for every profile whose native dimension is 128 or less.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::firmware::testing {

// Reads `x`, writes `y`; a few chains in between.
std::string random_chains(std::uint64_t seed);

}  // namespace tessera::firmware::testing
