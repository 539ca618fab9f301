#include "arith/kernels/testing/reference_planar.h"

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/kernels/planar/element.h"
#include "arith/rounding.h"

namespace tessera {
namespace {

double dequantise(const Affine& affine, double q) {
  return static_cast<double>(
      arith::dequantize_linear(static_cast<std::int32_t>(q), affine.scale, affine.zero_point));
}

}  // namespace

double reference_elementwise(const ElementwiseConfig& config, const ReferenceElement& a,
                             const ReferenceElement& b, Format output) {
  // Results that are quantised are rounded to f32 first.
  const Format format = config.output.enabled ? Format::kF32 : output;
  double result = config.inputs[0].enabled ? dequantise(config.inputs[0], a.value) : a.value;
  if (config.binary) {
    const double other = config.inputs[1].enabled ? dequantise(config.inputs[1], b.value) : b.value;
    result = arith::evaluate(config.function, result, other, format);
  }
  result = arith::evaluate(config.activation, result, format);
  if (!config.output.enabled) return result;
  return arith::quantize_linear(static_cast<float>(result), config.output.scale,
                                config.output.zero_point, output);
}

void reference_pool(const PoolConfig& config, const Surface& input, const Surface& output) {
  for (std::int64_t channel = 0; channel < output.channels; ++channel) {
    for (std::int64_t row = 0; row < output.rows; ++row) {
      for (std::int64_t column = 0; column < output.columns; ++column) {
        arith::write_element(output.format,
                             pooled_element(config, input, output.format, {channel, row, column}),
                             output.at(channel, row, column));
      }
    }
  }
}

}  // namespace tessera
