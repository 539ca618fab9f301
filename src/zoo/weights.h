// Weights from a seed: the same bytes on every machine, whatever its mathematics library.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::zoo {

// A stream of its own for every parameter of a network.
struct WeightStream {
  std::uint64_t seed = 0;
  std::uint64_t stream = 0;
  double deviation = 1;
  double mean = 0;
};

// `count` numbers as little-endian binary32. Each is the sum of four uniform ones, close to a
// normal distribution and never more than 3.5 deviations from the mean.
void fill_weights(const WeightStream& stream, std::int64_t count, std::string& bytes);

}  // namespace tessera::zoo
