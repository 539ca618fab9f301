// Resize and Upsample.
//
//   nearest          an index map for each axis, hence a Move; whole-number factors need one box
//   linear, cubic    axis by axis, what grows last and in columns first, a product with a constant matrix M [output, input] of weights:
//                    the last axis as MatMul [rest, input] x Mt, another one as a convolution of
//                    one tap whose channels are the axis. Each axis rounds to the vector format.
//                    An image that becomes larger by whole factors is filtered channel by channel
//                    instead (resize_filter.h), where M is a filter but for the border.
//
// M is what the operator itself makes of the identity matrix (model/evaluate.h), so every
// coordinate mode, antialiasing and weights at the border are as the host has them; and the index
// maps are what it makes of the places 0, 1, 2, ... With tf_crop_and_resize the result is not a
// product where it lies outside; that is the host's.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "graph/composer.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"
#include "graph/resize_filter.h"
#include "model/evaluate.h"

namespace tessera::graph {

namespace {

std::vector<std::size_t> resize_axes(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : op.integer_list("axes")) {
    axes.push_back(static_cast<std::size_t>(positive_axis(axis, rank)));
  }
  for (std::size_t i = 0; axes.empty() && i < rank; ++i) {
    axes.resize(rank);
    for (std::size_t k = 0; k < rank; ++k) axes[k] = k;
  }
  return axes;
}

// Elements of a weight matrix; beyond it the host is as good.
constexpr std::int64_t kWeightsMax = std::int64_t{1} << 22;

Constant list_constant(Format format, const std::vector<double>& values) {
  return constant_from_reals(format, {static_cast<std::int64_t>(values.size())}, values);
}

// Rows, resized along the second axis as the operator does it; null where it cannot.
Constant resized_rows(const Op& op, const Constant& rows, std::int64_t output,
                      std::optional<double> scale) {
  const bool old = op.opset < 11 || op.node.op_type == "Upsample";
  const Constant roi = constant_from_reals(Format::kF32, {0}, {});
  const Constant scales = list_constant(Format::kF32, {1.0, scale.value_or(1.0)});
  const Constant sizes = list_constant(
      Format::kI64, {static_cast<double>(rows->dims[0]), static_cast<double>(output)});
  model::Node node = op.node;
  for (const char* name : {"axes", "keep_aspect_ratio_policy", "scales"}) {
    node.attributes.erase(name);
  }
  node.outputs = {"y"};
  std::vector<const Tensor*> inputs = {rows.get()};
  if (op.node.op_type == "Upsample" && op.has_attribute("scales")) {
    node.attributes["scales"] = std::vector<float>{1.0f, static_cast<float>(scale.value_or(1.0))};
    node.inputs = {"x"};
  } else if (old) {
    node.inputs = {"x", "scales"};
    inputs.push_back(scales.get());
  } else {
    node.inputs = {"x", "", scale ? "scales" : "", scale ? "" : "sizes"};
    inputs.insert(inputs.end(),
                  {nullptr, scale ? scales.get() : nullptr, scale ? nullptr : sizes.get()});
  }
  const auto resized = model::evaluate(node, op.opset, inputs);
  if (!resized.ok() || (*resized)[0].dims != Shape{rows->dims[0], output}) return nullptr;
  return std::make_shared<const Tensor>((*resized)[0]);
}

// [input, output]: the identity matrix, resized.
Constant axis_weights(const Op& op, std::int64_t input, std::int64_t output,
                      std::optional<double> scale) {
  std::vector<double> ones(static_cast<std::size_t>(input * input), 0.0);
  for (std::int64_t i = 0; i < input; ++i) ones[static_cast<std::size_t>(i * input + i)] = 1.0;
  return resized_rows(op, constant_from_reals(Format::kF32, {input, input}, ones), output, scale);
}

// The elements that the outputs of an axis are: the places 0, 1, 2, ..., resized.
std::optional<IndexMap> nearest_map(const Op& op, std::int64_t input, std::int64_t output,
                                    std::optional<double> scale) {
  IndexMap map;
  if (input == output && scale.value_or(1.0) == 1.0) {
    for (std::int64_t i = 0; i < output; ++i) map.push_back(i);
    return map;
  }
  Tensor places = Tensor::zeros(Format::kI64, {1, input});
  std::iota(places.as<std::int64_t>().begin(), places.as<std::int64_t>().end(), 0);
  const Constant resized =
      resized_rows(op, std::make_shared<const Tensor>(std::move(places)), output, scale);
  if (resized == nullptr) return std::nullopt;
  const auto found = resized->as<std::int64_t>();
  map.assign(found.begin(), found.end());
  return map;
}

// `scales` is empty where the sizes decide.
Lowered emit_nearest(Op& op, const std::vector<double>& scales,
                     const std::vector<std::size_t>& axes) {
  const Shape& input = op.input_dims(0);
  const Shape& output = op.output_dims(0);
  std::vector<IndexMap> maps;
  for (std::size_t k = 0; k < input.size(); ++k) {
    std::optional<double> scale;
    for (std::size_t j = 0; j < axes.size() && j < scales.size(); ++j) {
      if (axes[j] == k) scale = scales[j];
    }
    auto map = nearest_map(op, input[k], output[k], scale);
    if (!map) {
      return Lowered::host(
          fmt::format("operator '{}': its axes depend on each other", op.node.op_type));
    }
    maps.push_back(std::move(*map));
  }
  auto move = move_by_index_maps(input, maps);
  if (!move) {
    return Lowered::host(fmt::format("operator '{}': takes more than {} copies of {} axes",
                                     op.node.op_type, kBoxesMax, kBoxAxesMax));
  }
  op.at.emit_output(op, 0, {op.at.value(op.input(0))}, std::move(*move));
  return Lowered::done();
}

// x with axis `axis` replaced by its product with `weights` [input, output].
TensorId axis_product(Op& op, Composer& make, TensorId x, std::size_t axis,
                      const Constant& weights) {
  const std::int64_t input = weights->dims[0];
  const std::int64_t output = weights->dims[1];
  Shape dims = make.dims(x);
  std::int64_t outer = 1;
  for (std::size_t i = 0; i < axis; ++i) outer *= dims[i];
  const std::int64_t inner = element_count(dims) / (outer * input);
  dims[axis] = output;
  const TensorId matrix = op.at.constant(fmt::format("{}.weights{}", op.node.name, axis), weights);
  if (inner == 1) {
    const TensorId rows = make.reshaped(x, {outer, input});
    return make.reshaped(make.matmul(rows, matrix, {}, make.vector()), dims);
  }
  ConvAttributes conv;
  conv.matrix = op.at.matrix_format();
  const TensorId kernel = make.reshaped(make.transposed(matrix, {1, 0}), {output, input, 1, 1});
  const TensorId image = make.reshaped(x, {outer, input, 1, inner});
  const TensorId resized = op.at.emit(op, fmt::format("axis{}", axis), {image, kernel}, conv,
                                      make.vector(), {outer, output, 1, inner});
  return make.reshaped(resized, dims);
}

Lowered emit_interpolation(Op& op, const std::vector<double>& scales,
                           const std::vector<std::size_t>& axes) {
  if (!is_vector_float(op.input_type(0).format)) {
    return Lowered::host(fmt::format("operator '{}': no vector arithmetic in {}", op.node.op_type,
                                     format_name(op.input_type(0).format)));
  }
  if (op.text("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
    return Lowered::host("operator 'Resize': coordinates 'tf_crop_and_resize' with weights");
  }
  const Shape& input = op.input_dims(0);
  const Shape& output = op.output_dims(0);
  std::vector<std::pair<std::size_t, Constant>> products;
  for (std::size_t axis = 0; axis < input.size(); ++axis) {
    std::optional<double> scale;
    for (std::size_t j = 0; j < axes.size() && j < scales.size(); ++j) {
      if (axes[j] == axis) scale = scales[j];
    }
    if (input[axis] == output[axis] && scale.value_or(1.0) == 1.0) continue;
    if (input[axis] * std::max(input[axis], output[axis]) > kWeightsMax) {
      return Lowered::host(
          fmt::format("operator '{}': more than {} weights", op.node.op_type, kWeightsMax));
    }
    Constant weights = axis_weights(op, input[axis], output[axis], scale);
    if (weights == nullptr) {
      return Lowered::host(
          fmt::format("operator '{}': its axes depend on each other", op.node.op_type));
    }
    products.emplace_back(axis, std::move(weights));
  }
  Composer make(op);
  TensorId x = op.at.value(op.input(0));
  // What becomes smaller does so first. Then columns before rows: those that are not the filter's are as long as the
  // image was high, and the largest image is written in whole rows.
  const auto growing = std::ranges::stable_partition(
      products, [](const auto& one) { return one.second->dims[0] > one.second->dims[1]; });
  std::ranges::reverse(growing);
  for (const auto& [axis, weights] : products) {
    const auto filter = axis < 2 ? std::nullopt : find_resize_filter(*weights);
    const bool filtered = filter && input.size() == 4 && input[1] > 1;
    x = filtered ? emit_resize_filter(op, make, {x, axis}, *filter)
                 : axis_product(op, make, x, axis, weights);
  }
  make.output(0, x);
  return Lowered::done();
}

}  // namespace

Lowered lower_resize(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  // Opset 10 is Upsample by another name.
  const bool old = op.opset < 11;
  const std::size_t scales_at = old ? 1 : 2;
  std::vector<double> scales;
  if (op.has_input(scales_at)) {
    if (op.constant(scales_at) == nullptr) {
      return Lowered::host("operator 'Resize': the scales are computed at run time");
    }
    scales = reals(*op.constant(scales_at));
  }
  if (op.text("mode", "nearest") != "nearest") {
    return emit_interpolation(op, scales, resize_axes(op));
  }
  return emit_nearest(op, scales, resize_axes(op));
}

Lowered lower_upsample(Op& op) {
  if (std::string reason = operand_refusal(op); !reason.empty()) return Lowered::host(reason);
  std::vector<double> scales;
  for (const float scale : op.real_list("scales")) scales.push_back(scale);
  if (op.has_input(1)) {
    if (op.constant(1) == nullptr) {
      return Lowered::host("operator 'Upsample': the scales are computed at run time");
    }
    scales = reals(*op.constant(1));
  }
  if (op.text("mode", "nearest") != "nearest") {
    return emit_interpolation(op, scales, resize_axes(op));
  }
  return emit_nearest(op, scales, resize_axes(op));
}

}  // namespace tessera::graph
