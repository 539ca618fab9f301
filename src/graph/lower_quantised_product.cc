#include "graph/lower_quantised_product.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "arith/integer.h"
#include "arith/rounding.h"
#include "graph/composition.h"
#include "graph/conv_nodes.h"
#include "graph/matmul_nodes.h"
#include "graph/quantised_value.h"

namespace tessera::graph {

namespace {

// What the array takes whole, or in halves where `bytes` is 2.
bool is_operand(Format format, std::int32_t bytes) {
  return format_is_affine(format) && format_bytes(format) <= bytes;
}

// What follows the product up to its QuantizeLinear.
struct Tail {
  std::vector<const model::Node*> nodes;  // to be lowered with the product
  std::string output;                     // the quantised value
  ResultScale result;
};

std::int32_t quantised_bound(double real, const QuantisedValue& y) {
  if (std::isinf(real)) return real < 0 ? INT32_MIN : INT32_MAX;
  return arith::quantize_linear(static_cast<float>(real), y.scales[0], y.zero_points[0],
                                Format::kI32);
}

// Lower and upper bound of a Relu or Clip with constant bounds; false for any other node.
bool read_bounds(const Lowering& at, const model::Node& node, double& low, double& high) {
  low = -INFINITY;
  high = INFINITY;
  if (node.op_type == "Relu") {
    low = 0;
    return true;
  }
  if (node.op_type != "Clip") return false;
  const auto bound = [&](std::size_t i, const char* name, double& value) {
    if (const auto found = node.attributes.find(name); found != node.attributes.end()) {
      if (const auto* real = std::get_if<float>(&found->second)) value = *real;
    }
    if (i >= node.inputs.size() || node.inputs[i].empty()) return true;
    const Constant constant = at.type(node.inputs[i]).constant;
    if (constant == nullptr) return false;
    value = only_real(*constant);
    return true;
  };
  return bound(1, "min", low) && bound(2, "max", high);
}

std::optional<Tail> find_tail(const Lowering& at, const std::string& product) {
  Tail tail;
  std::string value = product;
  double low = -INFINITY;
  double high = INFINITY;
  for (;;) {
    const auto& users = at.consumers(value);
    if (users.size() != 1 || at.is_graph_output(value)) return std::nullopt;
    const model::Node& user = *users[0];
    tail.nodes.push_back(&user);
    if (user.op_type == "QuantizeLinear" && user.inputs[0] == value) {
      const auto y = read_quantised(at, user, true);
      if (!y || !y->per_tensor() || !is_operand(y->format, at.quantised_bytes())) {
        return std::nullopt;
      }
      tail.output = user.outputs[0];
      tail.result = {y->scales[0], y->zero_points[0], quantised_bound(low, *y),
                     quantised_bound(high, *y)};
      return tail;
    }
    double user_low = 0;
    double user_high = 0;
    if (tail.nodes.size() > 2 || user.inputs[0] != value ||
        !read_bounds(at, user, user_low, user_high)) {
      return std::nullopt;
    }
    low = std::max(low, user_low);
    high = std::max(low, std::min(high, user_high));
    value = user.outputs[0];
  }
}

// The DequantizeLinear behind `name`, also through operators that keep the elements' order.
std::optional<QuantisedValue> dequantised_in_order(const Lowering& at, std::string name) {
  for (;;) {
    if (const auto found = dequantised(at, name)) return found;
    const model::Node* node = at.producer(name);
    if (node == nullptr || !node->domain.empty()) return std::nullopt;
    const std::string& type = node->op_type;
    const bool in_order = type == "Reshape" || type == "Flatten" || type == "Squeeze" ||
                          type == "Unsqueeze" || type == "Identity";
    if (!in_order || node->outputs[0] != name) return std::nullopt;
    name = node->inputs[0];
  }
}

// The operands of the product, all behind DequantizeLinear (x perhaps under another shape).
struct Pattern {
  QuantisedValue x, w;
  OperandScales scales;
  Constant bias;  // int32 with scale sx * sw; null if there is none
};

float sum_scale(const OperandScales& scales, std::size_t channel) {
  const std::size_t i = scales.stationary_scales.size() == 1 ? 0 : channel;
  return scales.moving_scale * scales.stationary_scales[i];
}

// The bias as int32 in units of sx * sw: as stored if it is stored so, otherwise rounded to it.
bool read_bias(const Op& op, std::size_t input, std::int64_t channels, Pattern& pattern) {
  if (!op.has_input(input)) return true;
  const Constant real = op.constant(input);
  if (real == nullptr || element_count(real->dims) != channels) return false;
  // As many elements may also be a column.
  if (channels > 1 && real->dims.back() != channels) return false;
  const auto stored = dequantised(op.at, op.input(input));
  if (stored && stored->format == Format::kI32) {
    bool same = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(channels); ++i) {
      const double scale = stored->scales[stored->per_tensor() ? 0 : i];
      const double expected = sum_scale(pattern.scales, i);
      same &= std::fabs(scale - expected) <= 1e-6 * expected;
      same &= stored->zero_points[stored->per_tensor() ? 0 : i] == 0;
    }
    if (same) {
      pattern.bias = reshaped(op.at.type(stored->value).constant, {channels});
      return true;
    }
  }
  std::vector<double> values = reals(*real);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] /= sum_scale(pattern.scales, i);
  pattern.bias = constant_from_reals(Format::kI32, {channels}, values);
  return true;
}

std::optional<Pattern> find_pattern(const Op& op, std::int64_t channel_axis) {
  const auto x = dequantised_in_order(op.at, op.input(0));
  const auto w = dequantised(op.at, op.input(1));
  const std::int32_t bytes = op.at.quantised_bytes();
  if (!x || !w || !x->per_tensor() || !is_operand(x->format, bytes) ||
      !is_operand(w->format, bytes)) {
    return std::nullopt;
  }
  if (op.at.type(w->value).constant == nullptr || op.at.type(x->value).constant != nullptr) {
    return std::nullopt;
  }
  if (!w->per_tensor() && w->axis != channel_axis) return std::nullopt;
  if (element_count(op.output_dims(0)) == 0) return std::nullopt;
  return Pattern{*x, *w, {x->scales[0], x->zero_points[0], w->scales, w->zero_points}, nullptr};
}

bool has_halves(const Pattern& pattern) {
  return format_bytes(pattern.x.format) + format_bytes(pattern.w.format) > 2;
}

// Sums of 16-bit operands may wrap around, which those of a real product do not: whether no input
// takes one there. The output channels of the weights lie along `axis`.
bool sums_fit(const Op& op, const Pattern& pattern, std::size_t axis) {
  if (!has_halves(pattern)) return true;
  const Tensor& weights = *op.at.type(pattern.w.value).constant;
  const auto channels = static_cast<std::size_t>(weights.dims[axis]);
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < weights.dims.size(); ++i) {
    inner *= static_cast<std::size_t>(weights.dims[i]);
  }
  const std::vector<double> values = reals(weights);
  std::vector<double> sums(channels, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t channel = i / inner % channels;
    const auto& points = pattern.scales.stationary_zero_points;
    sums[channel] += std::fabs(values[i] - points[points.size() == 1 ? 0 : channel]);
  }
  const arith::IntegerRange range = arith::integer_range(pattern.x.format);
  const std::int64_t point = pattern.scales.moving_zero_point;
  const auto reach = static_cast<double>(std::max(range.highest - point, point - range.lowest));
  const std::vector<double> bias =
      pattern.bias == nullptr ? std::vector<double>(channels, 0.0) : reals(*pattern.bias);
  for (std::size_t i = 0; i < channels; ++i) {
    if (sums[i] * reach + std::fabs(bias[i]) >= 0x1p31) return false;
  }
  return true;
}

std::vector<TensorId> product_inputs(Op& op, const Pattern& pattern, TensorId weights) {
  const TensorId x = op.at.emit_reshape(op, "x", op.at.value(pattern.x.value), op.input_dims(0));
  std::vector<TensorId> inputs = {x, weights};
  if (pattern.bias != nullptr) {
    inputs.push_back(op.at.constant(op.node.name + ".bias", pattern.bias));
  }
  return inputs;
}

// real = sum * (sx * sw) for output `0` of the operator; channels lie along `channel_axis`.
void emit_dequantised_sum(Op& op, TensorId sum, const Pattern& pattern, std::size_t channel_axis) {
  const Shape& dims = op.output_dims(0);
  const std::size_t count = pattern.scales.stationary_scales.size();
  if (count == 1) {
    ElementwiseAttributes attributes;
    attributes.inputs[0] = {true, sum_scale(pattern.scales, 0), 0};
    op.at.emit_output(op, 0, {sum}, attributes);
    return;
  }
  std::vector<double> scales;
  for (std::size_t i = 0; i < count; ++i) scales.push_back(sum_scale(pattern.scales, i));
  Shape scale_dims(dims.size(), 1);
  scale_dims[channel_axis] = static_cast<std::int64_t>(count);
  const TensorId factors = op.at.constant(op.node.name + ".scales",
                                          constant_from_reals(Format::kF32, scale_dims, scales));
  ElementwiseAttributes attributes = binary_node(BinaryFunction::kMultiply);
  attributes.inputs[0] = {true, 1.0f, 0};
  op.at.emit_output(op, 0, {sum, factors}, attributes);
}

void claim_tail(Op& op, const Tail& tail) {
  std::vector<std::string> origins;
  for (const model::Node* node : tail.nodes) {
    op.at.claim(*node);
    origins.push_back(node->name);
  }
  op.at.add_last_origins(origins);
}

}  // namespace

PostProcess requantising_post(const OperandScales& operands, const ResultScale& result) {
  PostProcess post;
  post.requantise = true;
  for (std::size_t i = 0; i < operands.stationary_scales.size(); ++i) {
    post.multipliers.push_back(sum_scale(operands, i) / result.scale);
  }
  post.output_zero_point = result.zero_point;
  post.clamp_low = result.clamp_low;
  post.clamp_high = result.clamp_high;
  return post;
}

IntegerOperands integer_operands(const OperandScales& operands) {
  IntegerOperands integer{operands.moving_zero_point, operands.stationary_zero_points};
  const bool equal =
      std::all_of(integer.stationary_zero_points.begin(), integer.stationary_zero_points.end(),
                  [&](std::int32_t point) { return point == integer.stationary_zero_points[0]; });
  if (equal) integer.stationary_zero_points.resize(1);
  return integer;
}

bool lower_quantised_conv(Op& op) {
  auto pattern = find_pattern(op, 0);
  const std::size_t rank = op.input_dims(0).size();
  if (!pattern || (rank != 3 && rank != 4)) return false;
  const Shape x_dims = as_image(op.input_dims(0));
  const Shape weight_dims = as_image(op.input_dims(1));
  if (!read_bias(op, 2, weight_dims[0], *pattern) || !sums_fit(op, *pattern, 0)) return false;
  const auto tail = find_tail(op.at, op.output(0));
  if (!tail && rank != 4) return false;
  const Shape kernel(op.input_dims(1).begin() + 2, op.input_dims(1).end());
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  ConvAttributes conv =
      conv_attributes(read_window(op, kernel, spatial), op.integer("group", 1),
                      {x_dims, weight_dims}, op.at.matrix_format().native_dimension);
  if (conv.channel_wise && has_halves(*pattern)) return false;
  conv.matrix.kind = MatrixKind::kInteger;
  conv.integer = integer_operands(pattern->scales);
  const Constant weights = op.at.type(pattern->w.value).constant;
  TensorId weights_id = op.at.value(pattern->w.value);
  if (rank == 3) {
    weights_id = op.at.constant(pattern->w.value + ".image", reshaped(weights, weight_dims));
  }
  std::vector<TensorId> inputs = product_inputs(op, *pattern, weights_id);
  if (tail) {
    conv.post = requantising_post(pattern->scales, tail->result);
    emit_conv(op, tail->output, std::move(inputs), conv);
    claim_tail(op, *tail);
    return true;
  }
  const TensorId sum =
      op.at.emit(op, "sum", std::move(inputs), conv, Format::kI32, op.output_dims(0));
  emit_dequantised_sum(op, sum, *pattern, 1);
  return true;
}

bool lower_quantised_matmul(Op& op) {
  const bool gemm = op.node.op_type == "Gemm";
  if (gemm && (op.real("alpha", 1.0f) != 1.0f || op.real("beta", 1.0f) != 1.0f)) return false;
  const std::size_t b_rank = op.input_dims(1).size();
  if (b_rank != 2 || op.input_dims(0).size() < 2) return false;
  const bool trans_b = gemm && op.integer("transB", 0) != 0;
  auto pattern = find_pattern(op, trans_b ? 0 : 1);
  if (!pattern || (gemm && op.integer("transA", 0) != 0)) return false;
  const Shape& dims = op.output_dims(0);
  if (gemm && !read_bias(op, 2, dims.back(), *pattern)) return false;
  if (!sums_fit(op, *pattern, trans_b ? 0 : 1)) return false;
  const auto tail = find_tail(op.at, op.output(0));
  TensorId weights = op.at.value(pattern->w.value);
  if (trans_b) weights = transposed_matrix(op, "transposed", weights);
  std::vector<TensorId> inputs = product_inputs(op, *pattern, weights);
  MatMulAttributes matmul;
  matmul.matrix.kind = MatrixKind::kInteger;
  matmul.integer = integer_operands(pattern->scales);
  if (tail) {
    matmul.post = requantising_post(pattern->scales, tail->result);
    op.at.emit_value(op, tail->output, std::move(inputs), matmul);
    claim_tail(op, *tail);
    return true;
  }
  const TensorId sum = op.at.emit(op, "sum", std::move(inputs), matmul, Format::kI32, dims);
  emit_dequantised_sum(op, sum, *pattern, dims.size() - 1);
  return true;
}

}  // namespace tessera::graph
