// The obvious form of element-wise work and of pooling: one output element at a time from the
// definitions. Tests hold the fast kernels against it. (Device `ref` has its own:
// host/reference_planar.cc.)
#pragma once

#include <span>

#include "arith/kernels/planar.h"

namespace tessera {

// An element read exactly, and the format it was read from.
struct ReferenceElement {
  double value = 0.0;
  Format format = Format::kF16;
};

// The stored value (before writing, which changes nothing any more). `b` is not read for unary
// work.
double reference_elementwise(const ElementwiseConfig& config, const ReferenceElement& a,
                             const ReferenceElement& b, Format output);

// `elements` in row-major order of the reduced axes.
double reference_reduce(const ReduceConfig& config, Format input, std::span<const double> elements,
                        Format output);

struct PoolPlace {
  std::int64_t channel = 0, row = 0, column = 0;
};
// The element that pooling gives there.
double reference_pool_element(const PoolConfig& config, const Surface& input, Format output,
                              const PoolPlace& place);
// All rows and channels of `output`.
void reference_pool(const PoolConfig& config, const Surface& input, const Surface& output);

}  // namespace tessera
