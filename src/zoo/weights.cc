#include "zoo/weights.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace tessera::zoo {
namespace {

static_assert(std::endian::native == std::endian::little);

// Splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15U;
constexpr int kParts = 4;
constexpr int kPartBits = 16;
constexpr double kPartRange = 1 << kPartBits;

}  // namespace

void fill_weights(const WeightStream& stream, std::int64_t count, std::string& bytes) {
  bytes.resize(static_cast<std::size_t>(count) * sizeof(float));
  const std::uint64_t start = mix(mix(stream.seed + kGamma) + stream.stream * kGamma);
  // The four parts together have the variance kParts * range^2 / 12.
  const auto factor = static_cast<float>(stream.deviation / std::sqrt(kParts / 12.0) / kPartRange);
  const auto mean = static_cast<float>(stream.mean);
  constexpr auto kCentre = static_cast<std::int64_t>(kParts * (kPartRange - 1) / 2);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t z = mix(start + static_cast<std::uint64_t>(i + 1) * kGamma);
    const std::uint64_t sum =
        (z & 0xffff) + ((z >> 16) & 0xffff) + ((z >> 32) & 0xffff) + (z >> 48);
    const float product = static_cast<float>(static_cast<std::int64_t>(sum) - kCentre) * factor;
    const float value = product + mean;
    std::memcpy(bytes.data() + i * static_cast<std::int64_t>(sizeof(float)), &value, sizeof(float));
  }
}

}  // namespace tessera::zoo
