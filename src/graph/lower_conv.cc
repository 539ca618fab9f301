// Conv and ConvTranspose over one or two spatial axes.
//
//   Conv           -> Conv.  One spatial axis: reshape to height 1, Conv, reshape back.
//   ConvTranspose  -> Conv with input dilation = strides, stride 1, the kernel flipped and its
//                     channel axes exchanged, and pads dilation * (K - 1) - pad.
//
//   Conv of one long filter, or few, over a line of one channel -> Conv whose channels are neighbouring
//                     samples, and whose outputs are neighbouring outputs
//
//     x0 x1 x2 ...  =>  x0 x3 x6 ..     3 outputs at once, each with the filter further down
//                       x1 x4 x7 ..
//                       x2 x5 x8 ..
//
//                     and where outputs lie far apart, whose samples are groups of their own, one output
//                     each
//
//   Conv over a long line (height 1) -> MatMul of the columns under the kernel: a Conv keeps whole
//                     rows in the state buffer, a MatMul's rows are cut
//
// A bias computed at run time is added behind the product. Three spatial axes and computed weights
// have files of their own: lower_volume.cc, lower_computed_conv.cc.
//
// Float convolutions only; DequantizeLinear -> Conv -> QuantizeLinear is lowered as a whole by
// lower_quantised_product.cc, which is asked first.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/quantity.h"
#include "graph/composer.h"
#include "graph/conv_nodes.h"
#include "graph/lower_computed_conv.h"
#include "graph/lower_quantised_product.h"
#include "graph/move_box.h"
#include "graph/operators.h"
#include "graph/refusals.h"

namespace tessera::graph {

namespace {

// Input channel and output channel axes exchanged within groups, both spatial axes reversed.
//   from [C, OC/groups, KH, KW] to [OC, C/groups, KH, KW]
CopyBox flipped_kernel(const Shape& dims, std::int64_t groups) {
  const std::int64_t in = dims[0] / groups;
  const std::int64_t out = dims[1];
  const std::int64_t height = dims[2];
  const std::int64_t width = dims[3];
  const std::int64_t taps = height * width;
  CopyBox box;
  box.input_offset = taps - 1;
  box.extents = {groups, out, in, height, width};
  box.input_strides = {in * out * taps, taps, out * taps, -width, -1};
  box.output_strides = row_major_strides(box.extents);
  return box;
}

// Pads of the transposed convolution's output, as ONNX resolves them.
struct OutputPads {
  std::array<std::int64_t, 2> begin, end;
};

OutputPads transposed_pads(const Op& op, const Window& window, const Shape& input,
                           const std::array<std::int64_t, 2>& output_padding) {
  OutputPads pads{window.pad_begin, window.pad_end};
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && !op.has_attribute("output_shape")) return pads;
  const Shape output = as_image(op.output_dims(0));
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t total = window.stride[axis] * (input[axis + 2] - 1) + output_padding[axis] +
                               window.reach(axis) - output[axis + 2];
    const std::int64_t cut = std::max<std::int64_t>(0, total);  // a longer output grows at its end
    pads.begin[axis] = auto_pad == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    pads.end[axis] = total - pads.begin[axis];
  }
  return pads;
}

std::string shape_refusal(const Op& op) {
  const std::size_t rank = op.input_dims(0).size();
  if (rank == 3 || rank == 4) return "";
  return fmt::format("operator '{}': {} spatial axes; the processor has 1 or 2", op.node.op_type,
                     static_cast<std::int64_t>(rank) - 2);
}

// The convolution with its bias, which need not be a constant, as the operator's output.
void emit_with_bias(Op& op, std::vector<TensorId> inputs, const ConvAttributes& conv) {
  if (!op.has_input(2) || op.constant(2) != nullptr) {
    if (op.has_input(2)) inputs.push_back(op.at.value(op.input(2)));
    emit_conv(op, op.output(0), std::move(inputs), conv);
    return;
  }
  Composer make(op);
  const Shape image = as_image(op.output_dims(0));
  inputs[0] = make.reshaped(inputs[0], as_image(make.dims(inputs[0])));
  const TensorId product = op.at.emit(op, "product", std::move(inputs), conv, Format::kF32, image);
  const TensorId bias = make.reshaped(op.at.value(op.input(2)), {image[1], 1, 1});
  make.output(0, make.binary(BinaryFunction::kAdd, product, bias, make.vector()));
}

// Bytes of a line, input and output, from which on a convolution becomes a product of its columns; but
// where each element is in many columns, which would all be loaded.
constexpr std::int64_t kLineBytes = std::int64_t{1} << 17;
constexpr std::int64_t kColumnsOfElementMax = 4;

bool is_long_line(const Op& op, const Window& window, const Shape& x, const Shape& weights) {
  if (weights[3] > kColumnsOfElementMax * window.stride[1]) return false;
  const Shape y = as_image(op.output_dims(0));
  const std::int64_t elements = x[3] * ceil_div(x[1], 128) + y[3] * ceil_div(y[1], 128);
  const bool fixed_bias = !op.has_input(2) || op.constant(2) != nullptr;
  return x[2] == 1 && weights[2] == 1 && op.integer("group", 1) == 1 && fixed_bias &&
         elements * format_bytes(op.at.vector_format()) > kLineBytes;
}

// x [N, C, 1, W] as rows [N * OW, taps * C], tap outermost, times the weights.
Lowered emit_long_line(Op& op, const Window& window, const Shape& weights) {
  Composer make(op);
  const Shape x = as_image(op.input_dims(0));
  const Shape y = as_image(op.output_dims(0));
  TensorId line = op.at.value(op.input(0));
  const std::int64_t width = window.pad_begin[1] + x[3] + window.pad_end[1];
  if (width != x[3]) {
    CopyBox copy{0, 0, window.pad_begin[1], {x[0] * x[1], x[3]}, {x[3], 1}, {width, 1}};
    line = make.moved(line, {true, 0, {simplified(copy)}}, {x[0], x[1], width});
  }
  CopyBox columns;
  columns.extents = {x[0], y[3], weights[3], x[1]};
  columns.input_strides = {x[1] * width, window.stride[1], window.dilation[1], width};
  columns.output_strides = row_major_strides(columns.extents);
  const TensorId rows =
      make.moved(line, {false, 0, {simplified(columns)}}, {x[0] * y[3], weights[3] * x[1]});
  const TensorId taps_first = make.transposed(
      make.reshaped(op.at.value(op.input(1)), {weights[0], x[1], weights[3]}), {2, 1, 0});
  const TensorId matrix = make.reshaped(taps_first, {weights[3] * x[1], weights[0]});
  const TensorId bias = op.has_input(2) ? op.at.value(op.input(2)) : TensorId{};
  const TensorId product = make.matmul(rows, matrix, bias, make.vector());
  make.output(0, make.transposed(make.reshaped(product, {x[0], y[3], y[1]}), {0, 2, 1}));
  return Lowered::done();
}

// A line of one channel cut into groups of samples, of which several make a group of outputs.
struct LineGroups {
  std::int64_t outputs = 0, samples = 0;  // of a group
  std::int64_t kernel = 0;                // groups of samples that a group of outputs reads
  std::int64_t stride = 1;                // groups of samples from one group of outputs to the next
  std::int64_t count = 0;                 // of outputs
};

constexpr std::int64_t kLineTapsMin = 32, kLineGroupsMin = 8;

bool is_line_of_filters(const Op& op, const Window& window, const Shape& x, const Shape& weights) {
  const bool fixed_bias = !op.has_input(2) || op.constant(2) != nullptr;
  const bool is_line = element_count(x) == x[3] && weights[1] == 1 && weights[2] == 1;
  return is_line && fixed_bias && window.dilation[1] == 1 && weights[3] >= kLineTapsMin &&
         window.pad_begin[1] >= 0 && window.pad_end[1] >= 0;
}

// None where outputs have few terms, far apart, or are few.
std::optional<LineGroups> line_groups(const Op& op, const Window& window, const Shape& x,
                                      const Shape& weights) {
  constexpr std::int64_t kSamples = 64, kOutputsMax = 128;
  if (!is_line_of_filters(op, window, x, weights)) return std::nullopt;
  const std::int64_t stride = window.stride[1];
  LineGroups groups;
  groups.outputs = std::min(kSamples / stride, kOutputsMax / weights[0]);
  groups.samples = groups.outputs * stride;
  if (groups.outputs < kLineGroupsMin) return std::nullopt;
  groups.kernel = ceil_div((groups.outputs - 1) * stride + weights[3], groups.samples);
  groups.count = ceil_div(as_image(op.output_dims(0))[3], groups.outputs);
  return groups.count < kLineGroupsMin ? std::nullopt : std::optional(groups);
}

// Outputs far apart, each from groups of samples of its own and some of its neighbours'. None where no
// stride is whole groups of samples.
std::optional<LineGroups> line_frames(const Op& op, const Window& window, const Shape& x,
                                      const Shape& weights) {
  if (!is_line_of_filters(op, window, x, weights)) return std::nullopt;
  LineGroups groups{.outputs = 1, .count = as_image(op.output_dims(0))[3]};
  for (groups.samples = 128; groups.samples >= kLineTapsMin; groups.samples /= 2) {
    if (window.stride[1] % groups.samples == 0 && groups.samples <= weights[3]) break;
  }
  if (groups.samples < kLineTapsMin || groups.count < kLineGroupsMin) return std::nullopt;
  groups.stride = window.stride[1] / groups.samples;
  groups.kernel = ceil_div(weights[3], groups.samples);
  return groups;
}

// [outputs of a group x filters, samples of a group, 1, groups]: the filters, one stride further down for
// each output of a group.
Constant spread_filters(const Tensor& weights, const LineGroups& groups, std::int64_t stride) {
  const std::int64_t filters = weights.dims[0], taps = weights.dims[3];
  auto spread = std::make_shared<Tensor>(
      Tensor::zeros(weights.format, {groups.outputs * filters, groups.samples, 1, groups.kernel}));
  const auto element = static_cast<std::size_t>(format_bytes(weights.format));
  for (std::int64_t row = 0; row < groups.outputs * filters; ++row) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const std::int64_t sample = row / filters * stride + tap;
      const std::int64_t to = (row * groups.samples + sample % groups.samples) * groups.kernel +
                              sample / groups.samples;
      const std::int64_t from = row % filters * taps + tap;
      std::memcpy(spread->bytes.data() + static_cast<std::size_t>(to) * element,
                  weights.bytes.data() + static_cast<std::size_t>(from) * element, element);
    }
  }
  return spread;
}

Lowered emit_line_in_groups(Op& op, const Window& window, const LineGroups& groups,
                            const Tensor& weights) {
  Composer make(op);
  const Shape x = as_image(op.input_dims(0));
  const std::int64_t inputs = (groups.count - 1) * groups.stride + groups.kernel;
  const std::int64_t length = inputs * groups.samples, begin = window.pad_begin[1];
  const CopyBox all{0, 0, begin, {std::min(x[3], length - begin)}, {1}, {1}};
  const bool has_fill = all.extents[0] != length;
  const TensorId line =
      make.moved(op.at.value(op.input(0)), {has_fill, 0, {all}}, {inputs, groups.samples});
  const TensorId image =
      make.reshaped(make.transposed(line, {1, 0}), {1, groups.samples, 1, inputs});
  const Constant kernel = spread_filters(weights, groups, window.stride[1]);
  ConvAttributes conv =
      conv_attributes({.stride = {1, groups.stride}}, 1, {op.at.tensor(image).dims, kernel->dims},
                      op.at.matrix_format().native_dimension);
  conv.matrix = op.at.matrix_format();
  std::vector<TensorId> operands = {
      image,
      op.at.shared_constant(op.input(1) + fmt::format(".groups_{}", groups.samples), kernel)};
  if (op.has_input(2)) {
    operands.push_back(
        op.at.shared_constant(op.input(2) + ".groups", repeated(*op.constant(2), groups.outputs)));
  }
  const std::int64_t filters = weights.dims[0];
  const TensorId product = op.at.emit(op, "product", std::move(operands), conv, make.vector(),
                                      {1, kernel->dims[0], 1, groups.count});
  const TensorId outputs = make.reshaped(
      make.transposed(make.reshaped(product, {groups.outputs, filters, groups.count}), {1, 2, 0}),
      {filters, groups.outputs * groups.count});
  const std::int64_t columns = as_image(op.output_dims(0))[3];
  make.output(0, make.reshaped(make.part(outputs, 1, 0, columns), op.output_dims(0)));
  return Lowered::done();
}

}  // namespace

Lowered lower_conv(Op& op) {
  if (lower_quantised_conv(op)) return Lowered::done();
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.input_dims(0).size() == 5) return lower_volume_conv(op);
  if (std::string reason = shape_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (op.constant(1) == nullptr) return lower_computed_conv(op);
  const Shape x_dims = as_image(op.input_dims(0));
  const Constant weights = reshaped(op.constant(1), as_image(op.input_dims(1)));
  const Shape kernel(op.input_dims(1).begin() + 2, op.input_dims(1).end());
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  const Window window = read_window(op, kernel, spatial);
  if (const auto groups = line_groups(op, window, x_dims, weights->dims)) {
    return emit_line_in_groups(op, window, *groups, *weights);
  }
  if (is_long_line(op, window, x_dims, weights->dims) && window.pad_begin[1] >= 0 &&
      window.pad_end[1] >= 0) {
    return emit_long_line(op, window, weights->dims);
  }
  if (const auto frames = line_frames(op, window, x_dims, weights->dims)) {
    return emit_line_in_groups(op, window, *frames, *weights);
  }
  ConvAttributes conv = conv_attributes(window, op.integer("group", 1), {x_dims, weights->dims},
                                        op.at.matrix_format().native_dimension);
  conv.matrix = op.at.matrix_format();
  std::vector<TensorId> inputs = {op.at.value(op.input(0)), op.at.value(op.input(1))};
  if (op.input_dims(1).size() == 3) inputs[1] = op.at.constant(op.input(1) + ".image", weights);
  emit_with_bias(op, std::move(inputs), conv);
  return Lowered::done();
}

Lowered lower_conv_transpose(Op& op) {
  if (std::string reason = float_refusal(op); !reason.empty()) return Lowered::host(reason);
  if (std::string reason = shape_refusal(op); !reason.empty()) return Lowered::host(reason);
  const Shape x_dims = as_image(op.input_dims(0));
  const Shape kernel(op.input_dims(1).begin() + 2, op.input_dims(1).end());
  const Shape spatial(op.input_dims(0).begin() + 2, op.input_dims(0).end());
  Window window = read_window(op, kernel, spatial);
  const auto output_padding = as_pair(op.integer_list("output_padding"), 0);
  const OutputPads pads = transposed_pads(op, window, x_dims, output_padding);
  const std::array<std::int64_t, 2> input_dilation = window.stride;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    window.pad_begin[axis] = window.reach(axis) - 1 - pads.begin[axis];
    window.pad_end[axis] = window.reach(axis) - 1 - pads.end[axis] + output_padding[axis];
    window.stride[axis] = 1;
  }
  const std::int64_t groups = op.integer("group", 1);
  const Shape kernel_dims = as_image(op.input_dims(1));
  const Shape weight_dims = {groups * kernel_dims[1], kernel_dims[0] / groups, kernel_dims[2],
                             kernel_dims[3]};
  ConvAttributes conv = conv_attributes(window, groups, {x_dims, weight_dims},
                                        op.at.matrix_format().native_dimension);
  conv.cut = BlockCut::kChannel;
  conv.input_dilation_h = input_dilation[0];
  conv.input_dilation_w = input_dilation[1];
  conv.matrix = op.at.matrix_format();
  Composer make(op);
  const TensorId weights = make.moved(
      op.at.value(op.input(1)), {false, 0, {flipped_kernel(kernel_dims, groups)}}, weight_dims);
  if (op.constant(1) == nullptr) {
    emit_computed_conv(op, weights, conv);
  } else {
    emit_with_bias(op, {op.at.value(op.input(0)), weights}, conv);
  }
  return Lowered::done();
}

}  // namespace tessera::graph
