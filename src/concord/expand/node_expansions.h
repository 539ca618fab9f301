// The expansions of the single node kinds, and the pieces that they share. The sources expand_*.cc
// and expand/function_steps.cc define them. Internal to src/concord.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "concord/expand/expansion.h"

namespace tessera::concord {

Result<Carried> expand_conv(Expansion& at, const graph::Node& node);
Result<Carried> expand_matmul(Expansion& at, const graph::Node& node);
Result<Carried> expand_integer_conv(Expansion& at, const graph::Node& node);
Result<Carried> expand_integer_matmul(Expansion& at, const graph::Node& node);
Result<Carried> expand_pool(Expansion& at, const graph::Node& node);
Result<Carried> expand_reduce(Expansion& at, const graph::Node& node);
Result<Carried> expand_elementwise(Expansion& at, const graph::Node& node);
Result<Carried> expand_move(Expansion& at, const graph::Node& node);

// round(activation(x)) to `format`; x is carried as elements of `source` (f16,
// bf16 or f32).
Result<Carried> expand_activation(Expansion& at, const graph::Node& node,
                                  const Activation& activation, const Carried& x, Format source,
                                  Format format);
// The function by float64 steps as arith::apply() has them, not rounded; nothing where there are
// none.
std::optional<ValueId> plain_function(Steps& steps, const Activation& activation, ValueId x,
                                      const Traits& traits);
// f16 and bf16: a function of one of them has 65,536 results.
inline bool is_narrow_float(Format format) {
  return format == Format::kF16 || format == Format::kBf16;
}
// The values of a function of one f16 or bf16 (`source`), for every element of x, as elements of
// `format`.
// Elements with the same `name` share their table.
struct TableFunction {
  std::string name;
  std::function<double(double)> value;
};
ValueId look_up(Expansion& at, const Carried& x, Format source, Format format,
                const TableFunction& function);

// Elements of an integer format (carried in f64; never -0) from f64: half to even, saturating, NaN
// gives 0.
ValueId round_to_integer(Steps& steps, ValueId x, Format format, bool may_be_nan);

// float(q - zero point) * scale, f32, of integers carried in f64.
ValueId dequantise(Steps& steps, ValueId q, const Affine& affine);
// Back to integers of `format` (carried in f64) from f32.
ValueId quantise(Steps& steps, ValueId x, const Affine& affine, Format format, bool may_be_nan);

// [N, C, H, W] -> [N, C, KH, OH, KW, OW]: the samples under each tap; `fill` where there is none.
struct WindowAxis {
  std::int64_t extent = 1, kernel = 1, stride = 1, pad = 0, dilation = 1, input_dilation = 1;
  std::int64_t outputs = 1;
  bool is_whole() const {  // one tap, every sample, nothing between
    return kernel == 1 && stride == 1 && pad == 0 && input_dilation == 1 && outputs == extent;
  }
};
ValueId window_view(Steps& steps, ValueId x, const WindowAxis& rows, const WindowAxis& columns,
                    double fill);

}  // namespace tessera::concord
