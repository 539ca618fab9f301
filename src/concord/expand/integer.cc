// Integer products: exact sums in float64, then ONNX's re-quantisation in float32.
//
// MatMulInteger is left alone: it saturates for some pairs of formats on some processors. Operands
// are small whole numbers, so that a float64 product of matrices has no rounding at all.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "arith/rounding.h"
#include "base/check.h"
#include "concord/expand/product_operands.h"

namespace tessera::concord {
namespace {

using graph::IntegerOperands;
using graph::Node;
using graph::PostProcess;

constexpr double kSumMax = 0x1p31;  // sums are int32

double stationary_zero_point(const IntegerOperands& integer, std::int64_t channel) {
  const auto& all = integer.stationary_zero_points;
  if (all.empty()) return 0;
  return all[all.size() == 1 ? 0 : static_cast<std::size_t>(channel)];
}

std::vector<double> integer_bias(Expansion& at, const Node& node, std::int64_t channels) {
  std::vector<double> values;
  if (node.inputs.size() < 3) return values;
  for (std::int64_t c = 0; c < channels; ++c) {
    values.push_back(element_of(*at.info(node.inputs[2]).constant, c));
  }
  return values;
}

// Largest |x - zero point|.
double reach(Format format, std::int32_t zero_point) {
  const arith::IntegerRange range = arith::integer_range(format);
  return static_cast<double>(std::max(range.highest - zero_point, zero_point - range.lowest));
}

// The largest sum of |w - zero point| down column `c` of the matrices.
double column_reach(const Tensor& matrices, std::int64_t c, double zero_point) {
  const std::int64_t columns = matrices.dims.back();
  const std::int64_t rows = matrices.dims[matrices.dims.size() - 2];
  double most = 0, total = 0;
  for (std::int64_t row = 0; row * columns < element_count(matrices.dims); ++row) {
    if (row % rows == 0) total = 0;
    total += std::abs(element_of(matrices, row * columns + c) - zero_point);
    most = std::max(most, total);
  }
  return most;
}

// One number a channel, along the axis that `shape` has; one number where all are equal.
ValueId channel_numbers(Steps& steps, const std::vector<double>& values, Format format,
                        const Shape& shape) {
  if (std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; })) {
    return steps.scalar(format, values[0]);
  }
  Tensor tensor = Tensor::zeros(format, shape);
  for (std::size_t i = 0; i < values.size(); ++i) {
    arith::write_element(format, values[i],
                         tensor.bytes.data() + i * static_cast<std::size_t>(format_bytes(format)));
  }
  return steps.constant(std::move(tensor));
}

// The stationary operand less its zero points; `integers` has the wanted order of elements, `shape`
// broadcasts one number per channel. Written as it is, in one byte per element.
ValueId stationary_operand(Steps& steps, Tensor integers, const IntegerOperands& operands,
                           std::int64_t channels, const Shape& shape) {
  const ValueId weights = steps.cast(steps.constant(std::move(integers)), Format::kF64);
  std::vector<double> zero_points;
  for (std::int64_t c = 0; c < channels; ++c) {
    zero_points.push_back(stationary_zero_point(operands, c));
  }
  const bool none =
      std::all_of(zero_points.begin(), zero_points.end(), [](double point) { return point == 0; });
  if (none) return weights;
  return steps.sub(weights, channel_numbers(steps, zero_points, Format::kF64, shape));
}

// post() of graph.h on the sum; `shape` broadcasts one number per channel.
ValueId requantise(Steps& steps, ValueId sum, const PostProcess& post, Format format,
                   const Shape& shape) {
  if (!post.requantise) return sum;
  const std::vector<double> multipliers(post.multipliers.begin(), post.multipliers.end());
  ValueId y = steps.mul(steps.cast(sum, Format::kF32),
                        channel_numbers(steps, multipliers, Format::kF32, shape));
  y = round_to_whole(steps, steps.cast(y, Format::kF64));
  if (post.output_zero_point != 0) y = steps.add(y, static_cast<double>(post.output_zero_point));
  const arith::IntegerRange range = arith::integer_range(format);
  const std::int64_t lowest = std::max<std::int64_t>(range.lowest, post.clamp_low);
  const std::int64_t highest = std::min<std::int64_t>(range.highest, post.clamp_high);
  return steps.clip(y, static_cast<double>(lowest), static_cast<double>(highest));
}

Status check_sum(const Node& node, double magnitude, bool trained) {
  if (magnitude < kSumMax) return {};
  return refuse(node,
                fmt::format("a sum may reach {:.0f}, and int32 wraps around there{}", magnitude,
                            trained ? " (with any weights; --trainable allows them all)" : ""));
}

ValueId without_zero_point(Steps& steps, ValueId x, std::int32_t zero_point) {
  return zero_point == 0 ? x : steps.sub(x, static_cast<double>(zero_point));
}

// --- Operands that are to be trained -------------------------------------------------------------
//
// A number p stands for the integer round(p / step) + zero point, saturated to its format. The
// steps make p what a float model has: activations are counted in halves of their format's range,
// so that weights are about as large as the float model's and all channels learn alike.

int bits_of(Format format) { return 8 * static_cast<int>(format_bytes(format)); }

// Of weights and biases, one per channel; both are f32 numbers times powers of two.
struct TrainedSteps {
  std::vector<double> weights, bias;
};

TrainedSteps trained_steps(const PostProcess& post, Format x, Format w, Format y,
                           std::int64_t channels) {
  TrainedSteps result;
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::size_t place = post.multipliers.size() == 1 ? 0 : static_cast<std::size_t>(c);
    const double multiplier = post.requantise ? static_cast<double>(post.multipliers[place]) : 0.0;
    if (multiplier >= 0x1p-60 && multiplier <= 0x1p60) {
      result.weights.push_back(std::ldexp(multiplier, bits_of(x) - bits_of(y)));
    } else {  // the whole range is 2
      result.weights.push_back(std::ldexp(1.0, 1 - bits_of(w)));
    }
    result.bias.push_back(std::ldexp(result.weights.back(), 1 - bits_of(x)));
  }
  return result;
}

// The integers `elements.lowest ... highest` that the parameter stands for, f64.
ValueId trained_integers(Steps& steps, Tensor start, const std::string& name,
                         const TrainedElements& elements) {
  constexpr double kBeyond = 0x1p33;
  const ValueId parameter =
      steps.parameter(std::move(start), name, std::make_shared<const TrainedElements>(elements));
  const ValueId scaled = steps.div(steps.cast(parameter, Format::kF64), elements.step);
  const ValueId whole = round_to_whole(steps, steps.clip(scaled, -kBeyond, kBeyond));
  return steps.clip(steps.add(whole, elements.zero_point), elements.lowest, elements.highest);
}

// The stationary operand less its zero points, [outputs, ...]; matrices [K, N] as [N, K].
ValueId trained_operand(Expansion& at, const Node& node, const IntegerOperands& operands,
                        const std::vector<double>& step) {
  Steps& steps = at.steps();
  const graph::TensorInfo& source = at.info(node.inputs[1]);
  const bool turned = node.kind() == graph::NodeKind::kMatMul;
  Shape dims = source.dims;
  if (turned) std::swap(dims[0], dims[1]);
  Shape one(dims.size(), 1);
  one[0] = dims[0];
  std::vector<double> zero_points;
  for (std::int64_t c = 0; c < dims[0]; ++c) {
    zero_points.push_back(stationary_zero_point(operands, c));
  }
  const std::int64_t terms = element_count(dims) / dims[0];
  Tensor start = Tensor::zeros(Format::kF32, dims);
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    const auto c = static_cast<std::size_t>(i / terms);
    const std::int64_t from = turned ? i % terms * dims[0] + i / terms : i;
    start.as<float>()[i] =
        static_cast<float>((element_of(*source.constant, from) - zero_points[c]) * step[c]);
  }
  const arith::IntegerRange range = arith::integer_range(source.format);
  TrainedElements elements;
  elements.step = channel_numbers(steps, step, Format::kF64, one);
  elements.zero_point = channel_numbers(steps, zero_points, Format::kF64, one);
  elements.lowest = static_cast<double>(range.lowest);
  elements.highest = static_cast<double>(range.highest);
  elements.format = source.format;
  return steps.sub(trained_integers(steps, std::move(start), node.name + ".weight", elements),
                   elements.zero_point);
}

// The bias, one number a channel along `shape`; it stays so small that no sum leaves int32, whatever
// the weights become. f64: an int32 has more bits than a float32.
ValueId trained_bias(Expansion& at, const Node& node, const std::vector<double>& step,
                     double products, const Shape& shape) {
  Steps& steps = at.steps();
  const graph::TensorInfo& source = at.info(node.inputs[2]);
  const auto channels = static_cast<std::int64_t>(step.size());
  const double limit = kSumMax - 1 - products;
  Tensor start = Tensor::zeros(Format::kF64, {channels});
  for (std::int64_t c = 0; c < channels; ++c) {
    const double bias = element_of(*source.constant, c);
    TESSERA_CHECK(std::abs(bias) <= limit, "'{}': a bias of {} beside {}", node.name, bias,
                  products);
    start.as<double>()[c] = bias * step[static_cast<std::size_t>(c)];
  }
  TrainedElements elements;
  elements.step = channel_numbers(steps, step, Format::kF64, {channels});
  elements.zero_point = steps.f64(0);
  elements.lowest = -limit;
  elements.highest = limit;
  elements.format = Format::kI32;
  return steps.reshape(trained_integers(steps, std::move(start), node.name + ".bias", elements),
                       shape);
}

// The largest |w - zero point| that training can reach.
double trained_reach(Format format, const IntegerOperands& operands) {
  double most = 0;
  for (const std::int32_t point : operands.stationary_zero_points) {
    most = std::max(most, reach(format, point));
  }
  return most > 0 ? most : reach(format, 0);
}

// Whether the node's weights become parameters.
bool trains(const Expansion& at, const Node& node) {
  const graph::TensorInfo& w = at.info(node.inputs[1]);
  return at.trains() && w.constant != nullptr &&
         (node.kind() == graph::NodeKind::kConv || w.dims.size() == 2);
}

}  // namespace

Result<Carried> expand_integer_conv(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const Shape& y = output.dims;
  const std::int64_t taps = w.dims[2] * w.dims[3], terms = w.dims[1] * taps;
  const std::int64_t groups = conv.groups, channels = w.dims[0] / groups;
  const std::vector<double> bias = integer_bias(at, node, w.dims[0]);
  const bool trained = trains(at, node);
  const double products = static_cast<double>(terms) * trained_reach(w.format, conv.integer) *
                          reach(input.format, conv.integer.moving_zero_point);
  double magnitude = 0;
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    double total = trained ? products : 0;
    for (std::int64_t k = 0; k < terms && !trained; ++k) {
      const double weight = element_of(w, oc * terms + k) - stationary_zero_point(conv.integer, oc);
      total += std::abs(weight) * reach(input.format, conv.integer.moving_zero_point);
    }
    magnitude = std::max(magnitude,
                         total + (bias.empty() ? 0 : std::abs(bias[static_cast<std::size_t>(oc)])));
  }
  TESSERA_RETURN_IF_ERROR(check_sum(node, magnitude, trained));
  ValueId x =
      without_zero_point(steps, at.operand(node.inputs[0]).value, conv.integer.moving_zero_point);
  const WindowAxis rows = rows_of(conv, input.dims, w.dims, y);
  const WindowAxis columns = columns_of(conv, input.dims, w.dims, y);
  const std::int64_t pixels = y[2] * y[3];
  if (!rows.is_whole() || !columns.is_whole()) {
    x = steps.transpose(window_view(steps, x, rows, columns, 0.0), {0, 1, 2, 4, 3, 5});
  }
  const TrainedSteps step =
      trained_steps(conv.post, input.format, w.format, output.format, w.dims[0]);
  const auto kernel = [&](Shape dims, const Shape& shape) {
    if (trained) {
      return steps.reshape(trained_operand(at, node, conv.integer, step.weights), std::move(dims));
    }
    Tensor integers = w;
    integers.dims = std::move(dims);
    return stationary_operand(steps, std::move(integers), conv.integer, w.dims[0], shape);
  };
  const Shape one = groups == 1 ? Shape{channels, 1} : Shape{groups, channels, 1};
  if (terms == taps && channels == 1) {
    // Channel-wise: taps times weights, added up.
    x = steps.reshape(x, {y[0], w.dims[0], taps, pixels});
    x = steps.mul(x, kernel({w.dims[0], taps, 1}, {w.dims[0], 1, 1}));
    x = steps.reshape(steps.reduce(Operator::kReduceSum, x, {2}), {y[0], w.dims[0], 1, pixels});
  } else if (groups == 1) {
    x = steps.reshape(x, {y[0], terms, pixels});
    x = steps.matmul(kernel({channels, terms}, {channels, 1}), x);
  } else {
    x = steps.reshape(x, {y[0], groups, terms, pixels});
    x = steps.matmul(kernel({groups, channels, terms}, {groups, channels, 1}), x);
  }
  if (trained && !bias.empty()) {
    x = steps.add(x, trained_bias(at, node, step.bias, products, one));
  } else if (!bias.empty()) {
    x = steps.add(x, channel_numbers(steps, bias, Format::kF64, one));
  }
  const ValueId result = requantise(steps, x, conv.post, output.format, one);
  return Carried{steps.reshape(result, y), Traits::finite(), false};
}

Result<Carried> expand_integer_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& a = at.info(node.inputs[0]);
  const graph::TensorInfo& b = at.info(node.inputs[1]);
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const std::int64_t channels = output.dims.back(), terms = a.dims.back();
  const std::vector<double> bias = integer_bias(at, node, channels);
  std::vector<double> zero_points;
  const bool trained = trains(at, node);
  const double products = static_cast<double>(terms) * trained_reach(b.format, matmul.integer) *
                          reach(a.format, matmul.integer.moving_zero_point);
  double magnitude = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    const double zero_point = stationary_zero_point(matmul.integer, c);
    zero_points.push_back(zero_point);
    const double weights =
        b.constant != nullptr
            ? column_reach(*b.constant, c, zero_point)
            : static_cast<double>(terms) * reach(b.format, static_cast<std::int32_t>(zero_point));
    const double sum =
        trained ? products : weights * reach(a.format, matmul.integer.moving_zero_point);
    magnitude =
        std::max(magnitude, sum + (bias.empty() ? 0 : std::abs(bias[static_cast<std::size_t>(c)])));
  }
  TESSERA_RETURN_IF_ERROR(check_sum(node, magnitude, trained));
  const ValueId x =
      without_zero_point(steps, at.operand(node.inputs[0]).value, matmul.integer.moving_zero_point);
  const TrainedSteps step = trained_steps(matmul.post, a.format, b.format, output.format, channels);
  ValueId weights;
  if (trained) {
    weights = steps.transpose(trained_operand(at, node, matmul.integer, step.weights), {1, 0});
  } else if (b.constant != nullptr) {
    weights = stationary_operand(steps, *b.constant, matmul.integer, channels, {channels});
  } else {
    weights = at.operand(node.inputs[1]).value;
    if (zero_points != std::vector<double>(zero_points.size(), 0.0)) {
      weights = steps.sub(weights, channel_numbers(steps, zero_points, Format::kF64, {channels}));
    }
  }
  ValueId y = steps.matmul(x, weights);
  if (trained && !bias.empty()) {
    y = steps.add(y, trained_bias(at, node, step.bias, products, {channels}));
  } else if (!bias.empty()) {
    y = steps.add(y, channel_numbers(steps, bias, Format::kF64, {channels}));
  }
  return Carried{requantise(steps, y, matmul.post, output.format, {channels}), Traits::finite(),
                 false};
}

}  // namespace tessera::concord
