// Conversion between real numbers and affine integers. Arithmetic is binary32, see arith/integer.h.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> quantize_linear_shape(const Call& call);
Result<Outputs> dequantize_linear_shape(const Call& call);
Result<Outputs> dynamic_quantize_linear_shape(const Call& call);

Status quantize_linear(const Call& call, std::vector<Tensor>& outputs);
Status dequantize_linear(const Call& call, std::vector<Tensor>& outputs);
Status dynamic_quantize_linear(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
