// Weight regions of several programs, each byte once: what a region has of the package's weights, or of an
// earlier region, is a part there; the rest is added to the pool, which lies behind those weights in the
// package's section.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "isa/weights.h"
#include "package/common_bytes.h"

namespace tessera::package {

class WeightPool {
 public:
  // The package's weights, which stay.
  explicit WeightPool(std::span<const std::byte> weights)
      : weights_(weights), in_weights_(weights) {}

  // The whole region in parts, by their places in the section.
  std::vector<isa::RegionPart> add(std::span<const std::byte> region);
  // What was added: from pool_begin() on.
  std::vector<std::byte> take() { return std::move(pool_); }

 private:
  std::span<const std::byte> weights_;
  CommonBytesFinder in_weights_;
  std::vector<std::byte> pool_;
};

// Where the pool begins in a section with so many bytes of weights.
std::uint64_t pool_begin(std::uint64_t weight_bytes);

// The region that the parts are of, with its bytes, which lie in the package's weights and in its pool.
isa::Weights region_of_parts(std::span<const std::byte> weights, std::span<const std::byte> pool,
                             const std::vector<isa::RegionPart>& parts);

}  // namespace tessera::package
