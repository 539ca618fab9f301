// Channel-wise convolution and products in plain numbers: the order of the terms is the definition.
#include <fmt/format.h>

#include <cmath>

#include "arith/rounding.h"
#include "concord/expand/product_operands.h"

namespace tessera::concord {
namespace {

using graph::Node;

// No larger intermediate tensor is derived.
constexpr std::int64_t kElementsMax = std::int64_t{1} << 30;

// Products of plain f16 or f32 numbers: binary64, in the order of k, from `start` on. The operands
// are [..., M, K] and [..., K, N]; start broadcasts to the result.
Result<ValueId> ordered_product(Steps& steps, const Node& node, ValueId x, ValueId w,
                                ValueId start) {
  Shape left = steps.dims(x), right = steps.dims(w);
  left.push_back(1);
  right.insert(right.end() - 2, 1);
  Shape first = broadcast_dims(left, right);
  if (element_count(first) > kElementsMax) {
    return refuse(node,
                  fmt::format("a product of plain numbers keeps the order of its terms, {} of "
                              "them at once; choose block floating point",
                              element_count(first)));
  }
  const auto axis = static_cast<std::int64_t>(first.size()) - 2;
  const std::int64_t terms = first[static_cast<std::size_t>(axis)];
  first[static_cast<std::size_t>(axis)] = 1;
  const ValueId products = steps.mul(steps.reshape(x, left), steps.reshape(w, right));
  const ValueId sums =
      steps.running_sum(steps.concat({steps.expand(start, first), products}, axis), axis);
  Shape result = first;
  result.erase(result.begin() + axis);
  return steps.reshape(steps.slice(sums, axis, terms, terms + 1), result);
}

Traits traits_of_plain_product(Format output) {
  Traits traits;
  traits.may_be_infinite = output == Format::kF32;
  return traits;
}

// One number a channel, 0 where there is no bias; -0 is read as +0.
std::vector<double> plain_bias(Expansion& at, const Node& node, std::int64_t channels) {
  std::vector<double> values(static_cast<std::size_t>(channels), 0.0);
  if (node.inputs.size() < 3) return values;
  const Tensor& bias = *at.info(node.inputs[2]).constant;
  for (std::int64_t i = 0; i < channels; ++i) {
    values[static_cast<std::size_t>(i)] = element_of(bias, i) + 0.0;
  }
  return values;
}

}  // namespace

// Taps in kernel order, each product and each sum rounded to the working format: binary32 for f16
// operands (the products are exact there), binary64 for f32.
Result<Carried> expand_channel_wise(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const Shape& y = at.info(node.outputs[0]).dims;
  const Format output = at.info(node.outputs[0]).format;
  const Format working = input.format == Format::kF16 ? Format::kF32 : Format::kF64;
  const std::int64_t taps = w.dims[2] * w.dims[3], channels = w.dims[0];
  std::vector<double> weights(static_cast<std::size_t>(taps * channels));
  std::vector<double> start(weights.size(), -0.0);  // adding -0 changes nothing
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double weight = element_of(w, c * taps + tap);
      if (!std::isfinite(weight)) return refuse(node, "a weight is infinite or NaN");
      weights[static_cast<std::size_t>(tap * channels + c)] = weight;
      if (tap > 0) continue;
      start[static_cast<std::size_t>(c)] =
          node.inputs.size() > 2 ? element_of(*at.info(node.inputs[2]).constant, c) + 0.0 : 0.0;
    }
  }
  const auto constant = [&](const std::vector<double>& values) {
    Tensor tensor = Tensor::zeros(working, {taps, channels, 1});
    for (std::size_t i = 0; i < values.size(); ++i) {
      arith::write_element(
          working, values[i],
          tensor.bytes.data() + i * static_cast<std::size_t>(format_bytes(working)));
    }
    return steps.constant(std::move(tensor));
  };
  const Traits traits = at.operand(node.inputs[0]).traits;
  ValueId x = steps.cast(at.operand(node.inputs[0]).value, working);
  if (channels > input.dims[1]) {
    std::vector<std::int64_t> sources;
    for (std::int64_t c = 0; c < channels; ++c) sources.push_back(c * input.dims[1] / channels);
    x = steps.gather(x, steps.i64s(sources, {channels}), 1);
  }
  const Shape& dims = steps.dims(x);
  x = window_view(steps, x, rows_of(conv, dims, w.dims, y), columns_of(conv, dims, w.dims, y), 0.0);
  x = steps.transpose(x, {0, 2, 4, 1, 3, 5});
  x = steps.reshape(x, {y[0], taps, channels, y[2] * y[3]});
  x = steps.add(steps.mul(x, constant(weights)), constant(start));
  if (taps > 1) x = steps.slice(steps.running_sum(x, 1), 1, taps - 1, taps);
  x = steps.cast(steps.reshape(x, y), Format::kF64);
  Traits result = traits;
  result.may_be_nan |= traits.may_be_infinite || working == Format::kF64;
  result.may_be_infinite |= working == Format::kF64;
  result.non_negative = false;
  const ValueId rounded = round_to_format(steps, x, output, result);
  if (output == Format::kF16) result.may_be_infinite = false;
  return finish_product(at, node, rounded, result, conv.post);
}

Result<Carried> expand_plain_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const std::int64_t channels = output.dims.back();
  // [..., M, 1, N] before the axis of terms is taken off.
  const ValueId start = steps.f64s(plain_bias(at, node, channels), {1, channels});
  TESSERA_TRY(const ValueId sum, ordered_product(steps, node, at.wide(node.inputs[0]),
                                                 at.wide(node.inputs[1]), start));
  const ValueId y = round_to_format(steps, sum, output.format, {});
  return finish_product(at, node, y, traits_of_plain_product(output.format), matmul.post);
}

Result<Carried> expand_plain_conv(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const Shape& y = output.dims;
  const std::int64_t taps = w.dims[2] * w.dims[3], groups = conv.groups;
  const std::int64_t channels = w.dims[0] / groups, terms = w.dims[1] * taps;
  ValueId x = taps_matrix(steps, at.wide(node.inputs[0]), conv, w.dims, y);
  x = steps.transpose(steps.reshape(x, {y[0], groups, terms, y[2] * y[3]}), {0, 1, 3, 2});
  std::vector<double> values(static_cast<std::size_t>(w.dims[0] * terms));
  for (std::int64_t oc = 0; oc < w.dims[0]; ++oc) {
    for (std::int64_t k = 0; k < terms; ++k) {
      const std::int64_t tap = k / w.dims[1], c = k % w.dims[1];
      const double weight = element_of(w, (oc * w.dims[1] + c) * taps + tap);
      if (!std::isfinite(weight)) return refuse(node, "a weight is infinite or NaN");
      values[static_cast<std::size_t>((oc / channels * terms + k) * channels + oc % channels)] =
          weight;
    }
  }
  const ValueId kernel = write_weights(steps, values, {groups, terms, channels});
  const ValueId start = steps.f64s(plain_bias(at, node, w.dims[0]), {groups, 1, 1, channels});
  TESSERA_TRY(const ValueId sum, ordered_product(steps, node, x, kernel, start));
  ValueId result = steps.reshape(steps.transpose(sum, {0, 1, 3, 2}), y);
  result = round_to_format(steps, result, output.format, {});
  return finish_product(at, node, result, traits_of_plain_product(output.format), conv.post);
}

}  // namespace tessera::concord
