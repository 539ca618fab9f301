// Integer convolutions and matrix products, as found in quantised models.
//
//   x -> DequantizeLinear ─┐
//   w -> DequantizeLinear ─┼─► Conv | Gemm | MatMul ─► [Relu | Clip] ─► QuantizeLinear -> y
//   b -> DequantizeLinear ─┘
//
// becomes one integer node: y = saturate(round(float(sum) * ((sx * sw) / sy)) + zy), the multiplier
// computed in binary32 in that order. Relu and Clip become the node's clamp. Without a
// QuantizeLinear after it, the int32 sum is dequantised by an Elementwise with the scale sx * sw.
// A bias that is not stored with scale sx * sw is rounded to that scale (half to even).
#pragma once

#include <string>
#include <vector>

#include "graph/lowering.h"

namespace tessera::graph {

// Scales and zero points of the two operands of a product.
struct OperandScales {
  float moving_scale = 1.0f;
  std::int32_t moving_zero_point = 0;
  std::vector<float> stationary_scales = {1.0f};           // one, or one per output channel
  std::vector<std::int32_t> stationary_zero_points = {0};  // one, or one per output channel
};

// The integer result: its scale, zero point and clamp.
struct ResultScale {
  float scale = 1.0f;
  std::int32_t zero_point = 0;
  std::int32_t clamp_low = INT32_MIN;
  std::int32_t clamp_high = INT32_MAX;
};

PostProcess requantising_post(const OperandScales& operands, const ResultScale& result);
IntegerOperands integer_operands(const OperandScales& operands);

// Lower the pattern around this Conv, or this Gemm or MatMul. False (and nothing emitted) if the
// node is not part of one.
bool lower_quantised_conv(Op& op);
bool lower_quantised_matmul(Op& op);

}  // namespace tessera::graph
