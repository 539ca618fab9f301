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

// Where the sums of a product start, laid out as `dims`: one number a channel.
Result<ValueId> plain_start(Expansion& at, const Node& node, std::int64_t channels, Shape dims) {
  if (!at.trains() || node.inputs.size() < 3) {
    return at.steps().f64s(plain_bias(at, node, channels), std::move(dims));
  }
  const ValueId bias = at.trained(node, 2, "bias", {channels});
  return at.steps().reshape(bias, std::move(dims));
}

// The taps of a channel-wise convolution and what is added to them, each [taps, channels, 1] and in
// the working format: the bias to the first, -0 to the others, which changes nothing.
struct ChannelTaps {
  ValueId weights, start;
};

Result<ChannelTaps> constant_taps(Expansion& at, const Node& node, Format working) {
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const std::int64_t taps = w.dims[2] * w.dims[3], channels = w.dims[0];
  Tensor weights = Tensor::zeros(working, {taps, channels, 1}), start = weights;
  const auto write = [&](Tensor& tensor, std::int64_t i, double value) {
    arith::write_element(working, value, tensor.bytes.data() + i * format_bytes(working));
  };
  const std::vector<double> bias = plain_bias(at, node, channels);
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double weight = element_of(w, c * taps + tap);
      if (!std::isfinite(weight)) return refuse(node, "a weight is infinite or NaN");
      write(weights, tap * channels + c, weight);
      write(start, tap * channels + c, tap == 0 ? bias[static_cast<std::size_t>(c)] : -0.0);
    }
  }
  return ChannelTaps{at.steps().constant(std::move(weights)),
                     at.steps().constant(std::move(start))};
}

Result<ChannelTaps> trained_taps(Expansion& at, const Node& node, Format working) {
  Steps& steps = at.steps();
  const Shape w = at.info(node.inputs[1]).dims;
  const std::int64_t taps = w[2] * w[3], channels = w[0];
  ValueId weights = at.trained(node, 1, "weight", w);
  weights = steps.transpose(steps.reshape(weights, {channels, taps}), {1, 0});
  TESSERA_TRY(ValueId start, plain_start(at, node, channels, {1, channels, 1}));
  if (taps > 1) {
    const ValueId none = steps.expand(steps.f64(-0.0), {taps - 1, channels, 1});
    start = steps.concat({start, none}, 0);
  }
  return ChannelTaps{steps.cast(steps.reshape(weights, {taps, channels, 1}), working),
                     steps.cast(start, working)};
}

// The weights of a convolution as [groups, terms, channels], k = (tap, channel).
Result<ValueId> plain_kernel(Expansion& at, const Node& node, std::int64_t groups) {
  Steps& steps = at.steps();
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const std::int64_t taps = w.dims[2] * w.dims[3];
  const std::int64_t channels = w.dims[0] / groups, terms = w.dims[1] * taps;
  if (at.trains()) {
    const ValueId weights = at.trained(node, 1, "weight", w.dims);
    const ValueId rows =
        steps.reshape(steps.transpose(weights, {0, 2, 3, 1}), {groups, channels, terms});
    return steps.transpose(rows, {0, 2, 1});
  }
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
  return write_weights(steps, values, {groups, terms, channels});
}

}  // namespace

// Taps in kernel order, each product and each sum rounded to the working format: binary32 for f16
// and bf16 operands (products of f16 are exact there), binary64 for f32.
Result<Carried> expand_channel_wise(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& conv = node.as<graph::ConvAttributes>();
  const graph::TensorInfo& input = at.info(node.inputs[0]);
  const Tensor& w = *at.info(node.inputs[1]).constant;
  const Shape& y = at.info(node.outputs[0]).dims;
  const Format output = at.info(node.outputs[0]).format;
  const Format working = input.format == Format::kF32 ? Format::kF64 : Format::kF32;
  const std::int64_t taps = w.dims[2] * w.dims[3], channels = w.dims[0];
  TESSERA_TRY(const ChannelTaps kernel,
              at.trains() ? trained_taps(at, node, working) : constant_taps(at, node, working));
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
  x = steps.add(steps.mul(x, kernel.weights), kernel.start);
  if (taps > 1) x = steps.slice(steps.running_sum(x, 1), 1, taps - 1, taps);
  x = steps.cast(steps.reshape(x, y), Format::kF64);
  Traits result = traits;
  // Sums of f16 numbers stay finite.
  result.may_be_nan |= traits.may_be_infinite || input.format != Format::kF16;
  result.may_be_infinite |= input.format != Format::kF16;
  result.non_negative = false;
  const ValueId rounded = round_to_format(steps, x, output, result);
  if (output != Format::kF32) result.may_be_infinite = false;
  return finish_product(at, node, rounded, result, conv.post);
}

Result<Carried> expand_plain_matmul(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const auto& matmul = node.as<graph::MatMulAttributes>();
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  const std::int64_t channels = output.dims.back();
  // [..., M, 1, N] before the axis of terms is taken off.
  TESSERA_TRY(const ValueId start, plain_start(at, node, channels, {1, channels}));
  const graph::TensorInfo& b = at.info(node.inputs[1]);
  ValueId weights;
  if (at.trains() && b.constant != nullptr && b.dims.size() == 2) {
    const ValueId rows = at.trained(node, 1, "weight", {b.dims[1], b.dims[0]});
    weights = steps.transpose(rows, {1, 0});
  } else {
    weights = at.wide(node.inputs[1]);
  }
  TESSERA_TRY(const ValueId sum,
              ordered_product(steps, node, at.wide(node.inputs[0]), weights, start));
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
  TESSERA_TRY(const ValueId kernel, plain_kernel(at, node, groups));
  TESSERA_TRY(const ValueId start, plain_start(at, node, w.dims[0], {groups, 1, 1, channels}));
  TESSERA_TRY(const ValueId sum, ordered_product(steps, node, x, kernel, start));
  ValueId result = steps.reshape(steps.transpose(sum, {0, 1, 3, 2}), y);
  result = round_to_format(steps, result, output.format, {});
  return finish_product(at, node, result, traits_of_plain_product(output.format), conv.post);
}

}  // namespace tessera::concord
