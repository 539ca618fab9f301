// What a tensor takes as it lies in memory, dense.
#pragma once

#include "arith/tensor.h"
#include "base/quantity.h"
#include "tessera/network.h"

namespace tessera::runtime {

inline Bytes tensor_bytes(const TensorDescription& tensor) {
  return Bytes{element_count(tensor.dims) * format_bytes(tensor.format)};
}

}  // namespace tessera::runtime
