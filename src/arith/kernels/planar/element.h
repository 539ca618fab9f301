// One output element of reduction and of pooling, from the definitions: what pooling takes where it
// has no fast form, and what tests hold all forms against.
#pragma once

#include <cstdint>
#include <span>

#include "arith/kernels/planar/planar.h"

namespace tessera {

// The stored value (before writing, which changes nothing any more). `elements` in row-major order
// of the reduced axes, read exactly from `input`.
double reduced_element(const ReduceConfig& config, Format input, std::span<const double> elements,
                       Format output);

struct PoolPlace {
  std::int64_t channel = 0, row = 0, column = 0;
};
// The stored value of the element that pooling gives there.
double pooled_element(const PoolConfig& config, const Surface& input, Format output,
                      const PoolPlace& place);

}  // namespace tessera
