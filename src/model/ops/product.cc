#include "model/ops/product.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/integer.h"
#include "arith/rounding.h"
#include "model/ops/elements.h"
#include "model/ops/window.h"

namespace tessera::model::ops {

namespace {

// Two operands as stacks of matrices: [batch..., rows, depth] x [batch..., depth, columns].
struct MatmulPlan {
  Shape batch;
  Shape a_batch;
  Shape b_batch;
  std::int64_t rows = 1;
  std::int64_t depth = 1;
  std::int64_t columns = 1;
  Shape output;
};

Result<MatmulPlan> plan_matmul(Shape a, Shape b) {
  if (a.empty() || b.empty()) return invalid("a factor is a scalar");
  const bool a_vector = a.size() == 1;
  const bool b_vector = b.size() == 1;
  const Error mismatch =
      invalid(fmt::format("shapes {} and {} cannot be multiplied", shape_text(a), shape_text(b)));
  if (a_vector) a.insert(a.begin(), 1);
  if (b_vector) b.push_back(1);
  MatmulPlan plan;
  plan.rows = a[a.size() - 2];
  plan.depth = a[a.size() - 1];
  plan.columns = b[b.size() - 1];
  if (b[b.size() - 2] != plan.depth) return mismatch;
  plan.a_batch.assign(a.begin(), a.end() - 2);
  plan.b_batch.assign(b.begin(), b.end() - 2);
  auto batch = broadcast_shapes(plan.a_batch, plan.b_batch);
  if (!batch.ok()) return mismatch;
  plan.batch = std::move(batch).value();
  plan.output = plan.batch;
  if (!a_vector) plan.output.push_back(plan.rows);
  if (!b_vector) plan.output.push_back(plan.columns);
  return plan;
}

// write(position, sum, column) for every output element; sums run along the depth in order.
template <typename W, typename F>
void multiply(const MatmulPlan& plan, const std::vector<W>& a, const std::vector<W>& b, F&& write) {
  std::vector<W> sums(static_cast<std::size_t>(plan.columns));
  walk<2>(
      plan.batch,
      {broadcast_strides(plan.a_batch, plan.batch), broadcast_strides(plan.b_batch, plan.batch)},
      [&](std::int64_t matrix, const auto& offsets) {
        const std::int64_t a_base = offsets[0] * plan.rows * plan.depth;
        const std::int64_t b_base = offsets[1] * plan.depth * plan.columns;
        for (std::int64_t row = 0; row < plan.rows; ++row) {
          std::fill(sums.begin(), sums.end(), W{0});
          for (std::int64_t k = 0; k < plan.depth; ++k) {
            const W x = a[static_cast<std::size_t>(a_base + row * plan.depth + k)];
            const W* line = b.data() + b_base + k * plan.columns;
            for (std::int64_t column = 0; column < plan.columns; ++column) {
              sums[static_cast<std::size_t>(column)] += x * line[column];
            }
          }
          const std::int64_t base = (matrix * plan.rows + row) * plan.columns;
          for (std::int64_t column = 0; column < plan.columns; ++column) {
            write(base + column, sums[static_cast<std::size_t>(column)], column);
          }
        }
      });
}

// Which positions of an operand have a zero point of their own; all others share theirs.
enum class ZeroPoints { kOne, kPerRow, kPerColumn, kPerOutputChannel };

// The zero point in input `zero` as it broadcasts over input `data`: one number; a vector of one a
// row, column or output channel; or, of a product, [..., rows, 1] or [..., 1, columns].
Result<Shape> zero_point_dims(const Call& call, std::size_t data, std::size_t zero,
                              ZeroPoints form) {
  const Shape& found = call.dims(zero);
  if (element_count(found) == 1) return Shape(call.dims(data).size(), 1);
  Shape whole = call.dims(data);
  Shape each(whole.size(), 1);
  if (form == ZeroPoints::kPerOutputChannel) {
    each[0] = whole[0];
    whole = each;
  } else if (form != ZeroPoints::kOne && whole.size() >= 2) {
    const std::size_t own = whole.size() - (form == ZeroPoints::kPerRow ? 2 : 1);
    const std::size_t shared = whole.size() - (form == ZeroPoints::kPerRow ? 1 : 2);
    each[own] = whole[own];
    whole[shared] = 1;
  } else {
    whole = each;
  }
  if (found == whole) return whole;
  if (found == Shape{element_count(each)}) return each;
  return invalid(fmt::format("input {} (a zero point) has shape {}, a scalar or {} is needed", zero,
                             shape_text(found), element_count(each)));
}

Status check_zero_point(const Call& call, std::size_t data, std::size_t zero, ZeroPoints form) {
  if (!call.has(zero)) return {};
  TESSERA_RETURN_IF_ERROR(call.require_same_format(data, zero));
  TESSERA_RETURN_IF_ERROR(zero_point_dims(call, data, zero, form));
  return {};
}

// Elements minus their zero points.
Result<std::vector<std::int64_t>> centred(const Call& call, std::size_t data, std::size_t zero,
                                          ZeroPoints form) {
  std::vector<std::int64_t> values = load<std::int64_t>(call.tensor(data));
  if (!call.has(zero)) return values;
  TESSERA_TRY(const Shape dims, zero_point_dims(call, data, zero, form));
  const Reader<std::int64_t> zeros(call.tensor(zero));
  walk<1>(call.dims(data), {broadcast_strides(dims, call.dims(data))},
          [&](std::int64_t position, const auto& offsets) {
            values[static_cast<std::size_t>(position)] -= zeros[offsets[0]];
          });
  return values;
}

Status require_byte(const Call& call, std::size_t index) {
  if (call.format(index) == Format::kI8 || call.format(index) == Format::kU8) return {};
  return invalid(fmt::format("input {} has format {}, allowed: i8, u8", index,
                             format_name(call.format(index))));
}

}  // namespace

Result<Outputs> matmul_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(MatmulPlan plan, plan_matmul(call.dims(0), call.dims(1)));
  return one_output(call.format(0), std::move(plan.output));
}

Status matmul(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const MatmulPlan plan, plan_matmul(call.dims(0), call.dims(1)));
  // Integers are multiplied modulo 2^64, whatever their sign.
  if (!format_is_float(call.format(0))) {
    const Writer<std::uint64_t> out(outputs[0]);
    multiply(plan, load<std::uint64_t>(call.tensor(0)), load<std::uint64_t>(call.tensor(1)),
             [&](std::int64_t at, std::uint64_t sum, std::int64_t) { out.set(at, sum); });
    return {};
  }
  const Writer<double> out(outputs[0]);
  multiply(plan, load<double>(call.tensor(0)), load<double>(call.tensor(1)),
           [&](std::int64_t at, double sum, std::int64_t) { out.set(at, sum); });
  return {};
}

namespace {

// The matrix of input `index`, transposed where the attribute says so.
std::vector<double> load_matrix(const Call& call, std::size_t index, bool transposed) {
  std::vector<double> values = load<double>(call.tensor(index));
  if (!transposed) return values;
  const auto rows = static_cast<std::size_t>(call.dims(index)[0]);
  const auto columns = static_cast<std::size_t>(call.dims(index)[1]);
  std::vector<double> result(values.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) result[c * rows + r] = values[r * columns + c];
  }
  return result;
}

Result<MatmulPlan> plan_gemm(const Call& call) {
  if (call.rank(0) != 2 || call.rank(1) != 2) {
    return invalid(fmt::format("shapes {} and {} are not two matrices", shape_text(call.dims(0)),
                               shape_text(call.dims(1))));
  }
  Shape a = call.dims(0);
  Shape b = call.dims(1);
  if (call.attribute("transA", 0) != 0) std::swap(a[0], a[1]);
  if (call.attribute("transB", 0) != 0) std::swap(b[0], b[1]);
  return plan_matmul(a, b);
}

}  // namespace

Result<Outputs> gemm_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(MatmulPlan plan, plan_gemm(call));
  if (call.has(2)) {
    TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
    TESSERA_TRY(const Shape common, broadcast_shapes(plan.output, call.dims(2)));
    if (common != plan.output) {
      return invalid(fmt::format("input 2 of shape {} does not fit into {}",
                                 shape_text(call.dims(2)), shape_text(plan.output)));
    }
  }
  return one_output(call.format(0), std::move(plan.output));
}

Status gemm(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const MatmulPlan plan, plan_gemm(call));
  const double alpha = call.attribute_float("alpha", 1.0F);
  const double beta = call.attribute_float("beta", 1.0F);
  std::vector<double> bias(static_cast<std::size_t>(element_count(plan.output)), 0.0);
  if (call.has(2)) {
    const Reader<double> c(call.tensor(2));
    walk<1>(plan.output, {broadcast_strides(call.dims(2), plan.output)},
            [&](std::int64_t at, const auto& offsets) {
              bias[static_cast<std::size_t>(at)] = beta * c[offsets[0]];
            });
  }
  const Writer<double> out(outputs[0]);
  multiply(plan, load_matrix(call, 0, call.attribute("transA", 0) != 0),
           load_matrix(call, 1, call.attribute("transB", 0) != 0),
           [&](std::int64_t at, double sum, std::int64_t) {
             out.set(at, alpha * sum + bias[static_cast<std::size_t>(at)]);
           });
  return {};
}

namespace {

struct ConvPlan {
  Window window;
  std::int64_t batch = 0;
  std::int64_t groups = 1;
  std::int64_t in_channels = 0;   // a group
  std::int64_t out_channels = 0;  // a group
  std::int64_t in_plane = 1;      // elements
  std::int64_t out_plane = 1;
  std::int64_t taps = 1;
  Shape output;
};

void measure(ConvPlan& plan) {
  for (const WindowAxis& axis : plan.window) {
    plan.in_plane *= axis.input;
    plan.out_plane *= axis.output;
    plan.taps *= axis.kernel;
  }
  plan.output = {plan.batch, plan.out_channels * plan.groups};
  const Shape plane = output_plane(plan.window);
  plan.output.insert(plan.output.end(), plane.begin(), plane.end());
}

// x is input 0; weights are input `w`, shape [outputs, inputs / groups, kernel...].
Result<ConvPlan> plan_conv(const Call& call, std::size_t w) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 3));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(w, 3));
  TESSERA_TRY(const Shape kernel, kernel_shape(call, &call.dims(w)));
  ConvPlan plan;
  TESSERA_TRY(plan.window, plan_window(call, kernel, false));
  const Shape& x = call.dims(0);
  const Shape& weights = call.dims(w);
  plan.batch = x[0];
  plan.groups = call.attribute("group", 1);
  if (plan.groups < 1 || x[1] % plan.groups != 0 || weights[0] % plan.groups != 0 ||
      weights[1] != x[1] / plan.groups) {
    return invalid(fmt::format("weights of shape {} for an input of shape {} in {} groups",
                               shape_text(weights), shape_text(x), plan.groups));
  }
  plan.in_channels = weights[1];
  plan.out_channels = weights[0] / plan.groups;
  for (const WindowAxis& axis : plan.window) {
    if (axis.output > kDimensionMax) return invalid("the output is too large");
  }
  plan.output = {plan.batch, weights[0]};
  const Shape plane = output_plane(plan.window);
  plan.output.insert(plan.output.end(), plane.begin(), plane.end());
  TESSERA_RETURN_IF_ERROR(check_size(Format::kI8, plan.output));
  measure(plan);
  return plan;
}

// write(position, sum, output channel): channels, then taps, in order.
template <typename W, typename F>
void convolve(const ConvPlan& plan, const std::vector<W>& x, const std::vector<W>& weights,
              F&& write) {
  std::vector<Tap> taps;
  const std::int64_t channels = plan.groups * plan.out_channels;
  walk_indices(output_plane(plan.window), [&](std::int64_t place, const auto& at) {
    find_taps(plan.window, at, taps);
    for (std::int64_t line = 0; line < plan.batch * channels; ++line) {
      const std::int64_t n = line / channels;
      const std::int64_t m = line % channels;
      const std::int64_t group = m / plan.out_channels;
      W sum{0};
      for (std::int64_t c = 0; c < plan.in_channels; ++c) {
        const W* plane =
            x.data() + ((n * plan.groups + group) * plan.in_channels + c) * plan.in_plane;
        const W* kernel = weights.data() + (m * plan.in_channels + c) * plan.taps;
        for (const Tap& tap : taps) sum += plane[tap.input] * kernel[tap.kernel];
      }
      write(line * plan.out_plane + place, sum, m);
    }
  });
}

}  // namespace

Result<Outputs> conv_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(ConvPlan plan, plan_conv(call, 1));
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, plan.output[1]));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  return one_output(call.format(0), std::move(plan.output));
}

Status conv(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const ConvPlan plan, plan_conv(call, 1));
  std::vector<double> bias(static_cast<std::size_t>(plan.output[1]), 0.0);
  if (call.has(2)) bias = load<double>(call.tensor(2));
  const Writer<double> out(outputs[0]);
  convolve(plan, load<double>(call.tensor(0)), load<double>(call.tensor(1)),
           [&](std::int64_t at, double sum, std::int64_t channel) {
             out.set(at, sum + bias[static_cast<std::size_t>(channel)]);
           });
  return {};
}

namespace {

// Weights are [inputs, outputs / groups, kernel...]. The window's roles are exchanged: `input` is
// the output's plane, `output` the input's.
Result<ConvPlan> plan_conv_transpose(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 3));
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(1, 3));
  TESSERA_TRY(const Shape kernel, kernel_shape(call, &call.dims(1)));
  ConvPlan plan;
  TESSERA_TRY(plan.window, window_parameters(call, kernel));
  const std::size_t axes = plan.window.size();
  const Integers extra = call.attribute_integers("output_padding", Integers(axes, 0));
  Integers wanted = call.attribute_integers("output_shape", {});
  // Some files give batch and channels, too.
  if (wanted.size() == axes + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (extra.size() != axes || (!wanted.empty() && wanted.size() != axes)) {
    return invalid(
        fmt::format("attribute 'output_padding' or 'output_shape' has no {} values", axes));
  }
  const std::string auto_pad = call.attribute_string("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < axes; ++i) {
    WindowAxis& axis = plan.window[i];
    if (extra[i] < 0 || extra[i] > kDimensionMax) {
      return invalid(fmt::format("attribute 'output_padding' holds {}", extra[i]));
    }
    if (axis.input == 0) return invalid(fmt::format("axis {} of input 0 is empty", i + 2));
    axis.output = axis.input;
    const std::int64_t full = axis.stride * (axis.output - 1) + extra[i] + axis.extent();
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    if (auto_pad == "VALID") axis.before = axis.after = 0;
    if (same || !wanted.empty()) {
      axis.input = wanted.empty() ? axis.output * axis.stride : wanted[i];
      const std::int64_t total = std::max<std::int64_t>(0, full - axis.input);
      axis.before = auto_pad == "SAME_UPPER" ? total / 2 : total - total / 2;
    } else {
      axis.input = full - axis.before - axis.after;
    }
    if (axis.input < 1 || axis.input > kDimensionMax) {
      return invalid(fmt::format("axis {}: the output has a length of {}", i + 2, axis.input));
    }
  }
  const Shape& x = call.dims(0);
  const Shape& weights = call.dims(1);
  plan.groups = call.attribute("group", 1);
  if (plan.groups < 1 || weights[0] != x[1] || x[1] % plan.groups != 0 ||
      weights[1] > kDimensionMax / plan.groups) {
    return invalid(fmt::format("weights of shape {} for an input of shape {} in {} groups",
                               shape_text(weights), shape_text(x), plan.groups));
  }
  plan.batch = x[0];
  plan.in_channels = x[1] / plan.groups;
  plan.out_channels = weights[1];
  plan.output = {plan.batch, plan.out_channels * plan.groups};
  for (const WindowAxis& axis : plan.window) plan.output.push_back(axis.input);
  TESSERA_RETURN_IF_ERROR(check_size(Format::kI8, plan.output));
  return plan;
}

}  // namespace

Result<Outputs> conv_transpose_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(call.require_float(0));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 1));
  TESSERA_TRY(ConvPlan plan, plan_conv_transpose(call));
  TESSERA_RETURN_IF_ERROR(call.require_vector(2, plan.output[1]));
  TESSERA_RETURN_IF_ERROR(call.require_same_format(0, 2));
  return one_output(call.format(0), std::move(plan.output));
}

Status conv_transpose(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(ConvPlan plan, plan_conv_transpose(call));
  const Shape whole = plan.output;
  measure(plan);  // in_plane: the output's plane; out_plane: the input's
  const std::vector<double> x = load<double>(call.tensor(0));
  const std::vector<double> weights = load<double>(call.tensor(1));
  std::vector<double> sums(static_cast<std::size_t>(element_count(whole)), 0.0);
  if (call.has(2)) {
    const Reader<double> bias(call.tensor(2));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      sums[i] = bias[static_cast<std::int64_t>(i) / plan.in_plane % whole[1]];
    }
  }
  std::vector<Tap> taps;
  walk_indices(output_plane(plan.window), [&](std::int64_t place, const auto& at) {
    find_taps(plan.window, at, taps);
    for (std::int64_t line = 0; line < plan.batch * plan.groups * plan.in_channels; ++line) {
      const double value = x[static_cast<std::size_t>(line * plan.out_plane + place)];
      const std::int64_t channel = line % (plan.groups * plan.in_channels);
      const std::int64_t batch_group = line / plan.in_channels;
      for (std::int64_t m = 0; m < plan.out_channels; ++m) {
        const double* kernel = weights.data() + (channel * plan.out_channels + m) * plan.taps;
        double* plane = sums.data() + (batch_group * plan.out_channels + m) * plan.in_plane;
        for (const Tap& tap : taps) plane[tap.input] += value * kernel[tap.kernel];
      }
    }
  });
  const Writer<double> out(outputs[0]);
  for (std::size_t i = 0; i < sums.size(); ++i) out.set(static_cast<std::int64_t>(i), sums[i]);
  return {};
}

// --- Integers ------------------------------------------------------------------------------------

Result<Outputs> matmul_integer_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(require_byte(call, 0));
  TESSERA_RETURN_IF_ERROR(require_byte(call, 1));
  TESSERA_TRY(MatmulPlan plan, plan_matmul(call.dims(0), call.dims(1)));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 0, 2, ZeroPoints::kPerRow));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 1, 3, ZeroPoints::kPerColumn));
  return one_output(Format::kI32, std::move(plan.output));
}

Status matmul_integer(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const MatmulPlan plan, plan_matmul(call.dims(0), call.dims(1)));
  TESSERA_TRY(const auto a, centred(call, 0, 2, ZeroPoints::kPerRow));
  TESSERA_TRY(const auto b, centred(call, 1, 3, ZeroPoints::kPerColumn));
  const Writer<std::int64_t> out(outputs[0]);
  multiply(plan, a, b, [&](std::int64_t at, std::int64_t sum, std::int64_t) { out.set(at, sum); });
  return {};
}

Result<Outputs> conv_integer_shape(const Call& call) {
  TESSERA_RETURN_IF_ERROR(require_byte(call, 0));
  TESSERA_RETURN_IF_ERROR(require_byte(call, 1));
  TESSERA_TRY(ConvPlan plan, plan_conv(call, 1));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 0, 2, ZeroPoints::kOne));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 1, 3, ZeroPoints::kPerOutputChannel));
  return one_output(Format::kI32, std::move(plan.output));
}

Status conv_integer(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const ConvPlan plan, plan_conv(call, 1));
  TESSERA_TRY(const auto x, centred(call, 0, 2, ZeroPoints::kOne));
  TESSERA_TRY(const auto w, centred(call, 1, 3, ZeroPoints::kPerOutputChannel));
  const Writer<std::int64_t> out(outputs[0]);
  convolve(plan, x, w, [&](std::int64_t at, std::int64_t sum, std::int64_t) { out.set(at, sum); });
  return {};
}

namespace {

// saturate(round(sum * (a's scale * b's scale / y's scale)) + y's zero point); the multiplier is
// computed in binary32, one for each output channel where b's scale is a vector.
class Requantiser {
 public:
  static Requantiser make(const Call& call, const std::array<std::size_t, 4>& inputs) {
    const auto [a_scale, b_scale, y_scale, y_zero] = inputs;
    const std::vector<double> b = load<double>(call.tensor(b_scale));
    Requantiser result;
    const double a = Reader<double>(call.tensor(a_scale))[0];
    const double y = Reader<double>(call.tensor(y_scale))[0];
    for (const double scale : b) {
      const float product = arith::f32_from_f64(a * scale);
      result.multipliers_.push_back(arith::f32_from_f64(static_cast<double>(product) / y));
    }
    result.zero_ = static_cast<std::int32_t>(Reader<std::int64_t>(call.tensor(y_zero))[0]);
    result.format_ = call.format(y_zero);
    return result;
  }

  std::int64_t operator()(std::int64_t sum, std::int64_t channel) const {
    const auto at = static_cast<std::size_t>(multipliers_.size() == 1 ? 0 : channel);
    return arith::requantise(static_cast<std::int32_t>(sum), multipliers_[at], zero_, format_);
  }

 private:
  std::vector<float> multipliers_;
  std::int32_t zero_ = 0;
  Format format_ = Format::kU8;
};

// Scales and zero points of the QLinear operators, but for the zero points of a and b: one number
// each, of b perhaps one a channel.
Status check_quantisation(const Call& call, std::int64_t channels) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{4}, std::size_t{6}}) {
    TESSERA_RETURN_IF_ERROR(call.require_float(i));
  }
  TESSERA_RETURN_IF_ERROR(call.require_one_element(1, "the first operand's scale"));
  TESSERA_RETURN_IF_ERROR(call.require_one_or_vector(4, "the second operand's scale", channels));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(6, "y_scale"));
  TESSERA_RETURN_IF_ERROR(call.require_one_element(7, "y_zero_point"));
  return {};
}

}  // namespace

// Inputs: a, its scale and zero point, b, its scale and zero point, y's scale and zero point.
Result<Outputs> qlinear_matmul_shape(const Call& call) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
    TESSERA_RETURN_IF_ERROR(require_byte(call, i));
  }
  TESSERA_TRY(MatmulPlan plan, plan_matmul(call.dims(0), call.dims(3)));
  TESSERA_RETURN_IF_ERROR(check_quantisation(call, plan.columns));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 0, 2, ZeroPoints::kPerRow));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 3, 5, ZeroPoints::kPerColumn));
  return one_output(call.format(7), std::move(plan.output));
}

Status qlinear_matmul(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const MatmulPlan plan, plan_matmul(call.dims(0), call.dims(3)));
  TESSERA_TRY(const auto a, centred(call, 0, 2, ZeroPoints::kPerRow));
  TESSERA_TRY(const auto b, centred(call, 3, 5, ZeroPoints::kPerColumn));
  const Requantiser requantise = Requantiser::make(call, {1, 4, 6, 7});
  const Writer<std::int64_t> out(outputs[0]);
  multiply(plan, a, b, [&](std::int64_t at, std::int64_t sum, std::int64_t column) {
    out.set(at, requantise(sum, column));
  });
  return {};
}

Result<Outputs> qlinear_conv_shape(const Call& call) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{3}, std::size_t{7}}) {
    TESSERA_RETURN_IF_ERROR(require_byte(call, i));
  }
  TESSERA_TRY(ConvPlan plan, plan_conv(call, 3));
  TESSERA_RETURN_IF_ERROR(check_quantisation(call, plan.output[1]));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 0, 2, ZeroPoints::kOne));
  TESSERA_RETURN_IF_ERROR(check_zero_point(call, 3, 5, ZeroPoints::kPerOutputChannel));
  TESSERA_RETURN_IF_ERROR(call.require_vector(8, plan.output[1]));
  TESSERA_RETURN_IF_ERROR(call.require_format(8, Format::kI32));
  return one_output(call.format(7), std::move(plan.output));
}

Status qlinear_conv(const Call& call, std::vector<Tensor>& outputs) {
  TESSERA_TRY(const ConvPlan plan, plan_conv(call, 3));
  TESSERA_TRY(const auto x, centred(call, 0, 2, ZeroPoints::kOne));
  TESSERA_TRY(const auto w, centred(call, 3, 5, ZeroPoints::kPerOutputChannel));
  const Requantiser requantise = Requantiser::make(call, {1, 4, 6, 7});
  std::vector<std::int64_t> bias(static_cast<std::size_t>(plan.output[1]), 0);
  if (call.has(8)) bias = load<std::int64_t>(call.tensor(8));
  const Writer<std::int64_t> out(outputs[0]);
  convolve(plan, x, w, [&](std::int64_t at, std::int64_t sum, std::int64_t channel) {
    out.set(at, requantise(sum + bias[static_cast<std::size_t>(channel)], channel));
  });
  return {};
}

}  // namespace tessera::model::ops
