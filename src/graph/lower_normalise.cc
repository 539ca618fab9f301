// Composed operators: softmax and the normalisations, step by step with the format of every step.
// V is the vector format; "f32" marks what is kept in binary32 in between.
//
//   Softmax              m = max(x) V;  d = x - m V;  e = exp(d) V;  s = sum(e) f32;
//                        r = 1/s f32;  y = e * r V
//   LogSoftmax           m, d, e, s as above;  l = log(s) f32;  y = d - l V
//   LayerNormalization   u = mean(x) f32;  d = x - u f32;  q = d*d f32;  v = mean(q) f32;
//                        w = sqrt(v + epsilon) f32 (two roundings);  r = 1/w f32;  n = d * r f32;
//                        g = n * scale f32;  y = g + bias V
//   InstanceNormalization, MeanVarianceNormalization: the same over their own axes (the latter
//                        with epsilon 1e-9 added to the deviation, and neither scale nor bias)
//   BatchNormalization   y = (x * k V) + c V with k = scale / sqrt(variance + epsilon) and
//                        c = bias - mean * k; the pass `fold_channel_constants` moves both into a
//                        convolution before it
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "graph/composition.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// The dims with `axes` set to 1.
Shape reduced(Shape dims, const std::vector<std::int64_t>& axes) {
  for (const std::int64_t axis : axes) dims[static_cast<std::size_t>(axis)] = 1;
  return dims;
}

// Axes of a softmax: one axis from opset 13 on, before that all from `axis` on.
std::vector<std::int64_t> softmax_axes(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  const std::int64_t axis = positive_axis(op.integer("axis", op.opset < 13 ? 1 : -1), rank);
  if (op.opset >= 13) return {axis};
  std::vector<std::int64_t> axes;
  for (std::int64_t i = axis; i < static_cast<std::int64_t>(rank); ++i) axes.push_back(i);
  return axes;
}

struct SoftmaxParts {
  TensorId difference, power, sum;
  Shape sum_dims;
};

SoftmaxParts softmax_parts(Op& op, const std::vector<std::int64_t>& axes) {
  Lowering& at = op.at;
  const Format vector = at.vector_format();
  const Shape& dims = op.input_dims(0);
  const Shape sum_dims = reduced(dims, axes);
  const TensorId x = at.value(op.input(0));
  const TensorId maximum =
      at.emit(op, "max", {x}, reduce_node(ReduceFunction::kMaximum, axes), vector, sum_dims);
  const TensorId difference =
      at.emit(op, "difference", {x, maximum}, binary_node(BinaryFunction::kSubtract), vector, dims);
  const TensorId power =
      at.emit(op, "exp", {difference}, unary_node(UnaryFunction::kExp), vector, dims);
  const TensorId sum =
      at.emit(op, "sum", {power}, reduce_node(ReduceFunction::kSum, axes), Format::kF32, sum_dims);
  return {difference, power, sum, sum_dims};
}

std::string softmax_refusal(const Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return reason;
  const bool empty = op.input_dims(0).empty() || softmax_axes(op).empty();
  return empty ? fmt::format("operator '{}': no axis to sum over", op.node.op_type) : "";
}

// Axes of the means to take, one step after the other.
using MeanSteps = std::vector<std::vector<std::int64_t>>;

// Mean, deviation and what follows from them.
struct Normalised {
  TensorId mean, reciprocal_deviation, normal;
  Shape mean_dims;
};

enum class EpsilonPlace { kVariance, kDeviation };

// The mean over one axis after the other, each rounded to f32.
TensorId emit_mean(Op& op, const std::string& suffix, TensorId x, const MeanSteps& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string name = i + 1 == steps.size() ? suffix : fmt::format("{}_part", suffix);
    x = op.at.emit(op, name, {x}, reduce_node(ReduceFunction::kMean, steps[i]), Format::kF32,
                   reduced(op.at.tensor(x).dims, steps[i]));
  }
  return x;
}

Normalised normalise(Op& op, TensorId x, const MeanSteps& steps, double epsilon,
                     EpsilonPlace place) {
  Lowering& at = op.at;
  const Format f32 = Format::kF32;
  const Shape dims = at.tensor(x).dims;
  const TensorId mean = emit_mean(op, "mean", x, steps);
  const Shape mean_dims = at.tensor(mean).dims;
  const TensorId difference =
      at.emit(op, "difference", {x, mean}, binary_node(BinaryFunction::kSubtract), f32, dims);
  const TensorId square =
      at.emit(op, "square", {difference}, unary_node(UnaryFunction::kSquare), f32, dims);
  const TensorId variance = emit_mean(op, "variance", square, steps);
  const TensorId small = at.scalar(op.node.name + ".epsilon", epsilon);
  ElementwiseAttributes add = binary_node(BinaryFunction::kAdd);
  TensorId deviation;
  if (place == EpsilonPlace::kVariance) {
    add.activation.function = UnaryFunction::kSquareRoot;
    deviation = at.emit(op, "deviation", {variance, small}, add, f32, mean_dims);
  } else {
    const TensorId root =
        at.emit(op, "root", {variance}, unary_node(UnaryFunction::kSquareRoot), f32, mean_dims);
    deviation = at.emit(op, "deviation", {root, small}, add, f32, mean_dims);
  }
  const TensorId reciprocal = at.emit(op, "reciprocal", {deviation},
                                      unary_node(UnaryFunction::kReciprocal), f32, mean_dims);
  const TensorId normal = at.emit(op, "normal", {difference, reciprocal},
                                  binary_node(BinaryFunction::kMultiply), f32, dims);
  return {mean, reciprocal, normal, mean_dims};
}

// y = normal * scale + bias for the operator's first output. `bias` may be invalid.
void emit_scaled(Op& op, TensorId normal, TensorId scale, TensorId bias) {
  const ElementwiseAttributes multiply = binary_node(BinaryFunction::kMultiply);
  if (!bias.valid()) {
    op.at.emit_output(op, 0, {normal, scale}, multiply);
    return;
  }
  const TensorId scaled =
      op.at.emit(op, "scaled", {normal, scale}, multiply, Format::kF32, op.output_dims(0));
  op.at.emit_output(op, 0, {scaled, bias}, binary_node(BinaryFunction::kAdd));
}

// [C] as [C, 1, 1, ...] for data of the given rank.
TensorId per_channel(Op& op, std::size_t input, std::size_t rank) {
  Shape dims(rank - 1, 1);
  dims[0] = op.input_dims(input)[0];
  return op.at.emit_reshape(op, fmt::format("channels{}", input), op.at.value(op.input(input)),
                            dims);
}

// A channel with more elements than this is worked on in rows. Fixed, because it decides where the
// mean is rounded.
constexpr std::int64_t kLongChannel = 32768;
constexpr std::int64_t kRowsMax = 1024;

// The channels that a Reshape in front made one of (a group normalisation), where none is too long; else 0.
std::int64_t channels_of_group(const Op& op) {
  const model::Node* const reshape = op.at.producer(op.input(0));
  if (reshape == nullptr || reshape->op_type != "Reshape") return 0;
  const Shape& source = op.at.type(reshape->inputs[0]).dims;
  const std::int64_t groups = op.input_dims(0)[1];
  if (source.size() < 3 || source[0] != 1 || source[1] % groups != 0 ||
      element_count(source) / source[1] > kLongChannel) {
    return 0;
  }
  return source[1] / groups;
}

// Into how many equal rows a channel of [1, C, ...] is cut; 1 if it stays whole.
std::int64_t long_rows(const Op& op) {
  const Shape& dims = op.input_dims(0);
  const std::int64_t length = element_count(dims) / std::max<std::int64_t>(1, dims[0] * dims[1]);
  if (dims[0] != 1 || length <= kLongChannel) return 1;
  std::int64_t rows = channels_of_group(op);
  if (rows > 1) return rows;
  rows = kRowsMax;
  while (length % rows != 0) --rows;
  return rows;
}

// [1, C, ...] as [C, rows, 1, columns]: the mean of each row, then that of the rows' means.
void emit_long_instance(Op& op, std::int64_t rows) {
  const Shape& dims = op.input_dims(0);
  const std::int64_t columns = element_count(dims) / dims[1] / rows;
  const TensorId x =
      op.at.emit_reshape(op, "rows", op.at.value(op.input(0)), {dims[1], rows, 1, columns});
  const Normalised parts =
      normalise(op, x, {{3}, {1}}, op.real("epsilon", 1e-5f), EpsilonPlace::kVariance);
  std::array<TensorId, 2> channels;
  for (std::size_t i = 0; i < channels.size(); ++i) {
    channels[i] = op.at.emit_reshape(op, fmt::format("channels{}", i + 1),
                                     op.at.value(op.input(i + 1)), {dims[1], 1, 1, 1});
  }
  const TensorId scaled =
      op.at.emit(op, "scaled", {parts.normal, channels[0]}, binary_node(BinaryFunction::kMultiply),
                 Format::kF32, op.at.tensor(x).dims);
  const TensorId shifted =
      op.at.emit(op, "shifted", {scaled, channels[1]}, binary_node(BinaryFunction::kAdd),
                 op.at.vector_format(), op.at.tensor(x).dims);
  op.at.emit_output_reshape(op, 0, shifted);
}

}  // namespace

Lowered lower_softmax(Op& op) {
  if (std::string reason = softmax_refusal(op); !reason.empty()) return Lowered::host(reason);
  const SoftmaxParts parts = softmax_parts(op, softmax_axes(op));
  const TensorId reciprocal =
      op.at.emit(op, "reciprocal", {parts.sum}, unary_node(UnaryFunction::kReciprocal),
                 Format::kF32, parts.sum_dims);
  op.at.emit_output(op, 0, {parts.power, reciprocal}, binary_node(BinaryFunction::kMultiply));
  return Lowered::done();
}

Lowered lower_log_softmax(Op& op) {
  if (std::string reason = softmax_refusal(op); !reason.empty()) return Lowered::host(reason);
  const SoftmaxParts parts = softmax_parts(op, softmax_axes(op));
  const TensorId logarithm = op.at.emit(op, "log", {parts.sum}, unary_node(UnaryFunction::kLog),
                                        Format::kF32, parts.sum_dims);
  op.at.emit_output(op, 0, {parts.difference, logarithm}, binary_node(BinaryFunction::kSubtract));
  return Lowered::done();
}

Lowered lower_layer_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::size_t rank = op.input_dims(0).size();
  const std::int64_t first = positive_axis(op.integer("axis", -1), rank);
  std::vector<std::int64_t> axes;
  for (std::int64_t i = first; i < static_cast<std::int64_t>(rank); ++i) axes.push_back(i);
  const Normalised parts = normalise(op, op.at.value(op.input(0)), {axes},
                                     op.real("epsilon", 1e-5f), EpsilonPlace::kVariance);
  TensorId bias;
  if (op.has_input(2)) bias = op.at.value(op.input(2));
  emit_scaled(op, parts.normal, op.at.value(op.input(1)), bias);
  // Outputs Mean and InvStdDev, rounded to the vector format.
  if (op.has_output(1)) op.at.emit_output(op, 1, {parts.mean}, ElementwiseAttributes{});
  if (op.has_output(2)) {
    op.at.emit_output(op, 2, {parts.reciprocal_deviation}, ElementwiseAttributes{});
  }
  return Lowered::done();
}

Lowered lower_instance_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::size_t rank = op.input_dims(0).size();
  if (rank < 3) return Lowered::host("operator 'InstanceNormalization': no spatial axes");
  std::vector<std::int64_t> axes(rank - 2);
  std::iota(axes.begin(), axes.end(), 2);
  if (const std::int64_t rows = long_rows(op); rows > 1) {
    emit_long_instance(op, rows);
    return Lowered::done();
  }
  const Normalised parts = normalise(op, op.at.value(op.input(0)), {axes},
                                     op.real("epsilon", 1e-5f), EpsilonPlace::kVariance);
  emit_scaled(op, parts.normal, per_channel(op, 1, rank), per_channel(op, 2, rank));
  return Lowered::done();
}

Lowered lower_mean_variance_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  const std::size_t rank = op.input_dims(0).size();
  std::vector<std::int64_t> axes = op.integer_list("axes", {0, 2, 3});
  if (axes.empty()) {
    return Lowered::host("operator 'MeanVarianceNormalization': no axis to take a mean over");
  }
  for (std::int64_t& axis : axes) axis = positive_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  const TensorId x = op.at.value(op.input(0));
  const Normalised parts = normalise(op, x, {axes}, 1e-9, EpsilonPlace::kDeviation);
  const TensorId one = op.at.scalar(op.node.name + ".one", 1.0);
  emit_scaled(op, parts.normal, one, TensorId{});
  return Lowered::done();
}

Lowered lower_batch_normalization(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  for (std::size_t i = 1; i < 5; ++i) {
    if (op.constant(i) == nullptr) {
      return Lowered::host("operator 'BatchNormalization': statistics computed at run time");
    }
  }
  for (std::size_t i = 1; i < op.node.outputs.size(); ++i) {
    if (op.has_output(i)) return Lowered::host("operator 'BatchNormalization': training outputs");
  }
  const std::size_t rank = op.input_dims(0).size();
  if (op.integer("training_mode", 0) != 0 || op.integer("spatial", 1) == 0 || rank < 2) {
    return Lowered::host("operator 'BatchNormalization': not the per-channel inference form");
  }
  const std::vector<double> scale = reals(*op.constant(1));
  const std::vector<double> bias = reals(*op.constant(2));
  const std::vector<double> mean = reals(*op.constant(3));
  const std::vector<double> variance = reals(*op.constant(4));
  const double epsilon = op.real("epsilon", 1e-5f);
  std::vector<double> factor(scale.size());
  std::vector<double> offset(scale.size());
  for (std::size_t i = 0; i < scale.size(); ++i) {
    factor[i] = scale[i] / std::sqrt(variance[i] + epsilon);
    offset[i] = bias[i] - mean[i] * factor[i];
  }
  Shape dims(rank - 1, 1);
  dims[0] = static_cast<std::int64_t>(scale.size());
  // Binary64, so that folding into a convolution rounds once.
  const TensorId k =
      op.at.constant(op.node.name + ".factor", constant_from_reals(Format::kF64, dims, factor));
  const TensorId c =
      op.at.constant(op.node.name + ".offset", constant_from_reals(Format::kF64, dims, offset));
  const TensorId product =
      op.at.emit(op, "scaled", {op.at.value(op.input(0)), k},
                 binary_node(BinaryFunction::kMultiply), op.at.vector_format(), op.input_dims(0));
  op.at.emit_output(op, 0, {product, c}, binary_node(BinaryFunction::kAdd));
  return Lowered::done();
}

}  // namespace tessera::graph
