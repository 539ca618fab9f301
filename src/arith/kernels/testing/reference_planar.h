// The obvious form of element-wise work and of pooling: one output element at a time from the
// definitions. Tests hold the fast kernels against it. (Device `ref` has its own:
// host/reference_planar.cc.)
#pragma once

#include "arith/kernels/planar/planar.h"

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

// All rows and channels of `output`.
void reference_pool(const PoolConfig& config, const Surface& input, const Surface& output);

}  // namespace tessera
