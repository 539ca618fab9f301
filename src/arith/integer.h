// Affine integers: ONNX's re-quantisation, quantisation and de-quantisation, one element at a time.
// Arithmetic is binary32, each step rounded once, as ONNX Runtime does it; so results agree with it
// to the last bit.
#pragma once

#include <cstdint>

#include "arith/format.h"

namespace tessera::arith {

// saturate(round_half_even(float(accumulator) * multiplier) + zero_point). `out` is an integer
// format of at most 32 bits.
std::int32_t requantise(std::int32_t accumulator, float multiplier, std::int32_t zero_point,
                        Format out);
// saturate(round_half_even(x / scale) + zero_point); NaN gives the zero point.
std::int32_t quantize_linear(float x, float scale, std::int32_t zero_point, Format out);
// float(q - zero_point) * scale; the difference is exact.
float dequantize_linear(std::int32_t q, float scale, std::int32_t zero_point);

}  // namespace tessera::arith
