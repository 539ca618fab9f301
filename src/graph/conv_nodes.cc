#include "graph/conv_nodes.h"

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "graph/block_cut.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

// Output pixels of an image.
std::int64_t output_pixels(const Window& window, const ConvDims& dims) {
  std::int64_t pixels = 1;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::size_t at = dims.x.size() - 2 + axis;
    if (at < 2) continue;  // the one row of a signal
    const std::int64_t reach = (dims.weights[2 + axis] - 1) * window.dilation[axis] + 1;
    const std::int64_t free = dims.x[at] + window.pad_begin[axis] + window.pad_end[axis] - reach;
    pixels *= std::max<std::int64_t>(1, free / window.stride[axis] + 1);
  }
  return pixels;
}

}  // namespace

ConvAttributes conv_attributes(const Window& window, std::int64_t groups, const ConvDims& dims,
                               std::int64_t native_dimension) {
  ConvAttributes conv;
  conv.stride_h = window.stride[0];
  conv.stride_w = window.stride[1];
  conv.pad_top = window.pad_begin[0];
  conv.pad_left = window.pad_begin[1];
  conv.pad_bottom = window.pad_end[0];
  conv.pad_right = window.pad_end[1];
  conv.dilation_h = window.dilation[0];
  conv.dilation_w = window.dilation[1];
  conv.groups = groups;
  conv.channel_wise = groups > 1 && groups == dims.x[1] && dims.weights[0] % groups == 0;
  const std::int64_t taps = dims.weights[2] * dims.weights[3];
  const std::int64_t channels = dims.weights[1];
  const std::int64_t by_tap = taps * ceil_div(channels, native_dimension);
  if (!conv.channel_wise && ceil_div(taps * channels, native_dimension) < by_tap) {
    const SumShape sum{.kernel_h = dims.weights[2],
                       .kernel_w = dims.weights[3],
                       .stride_h = conv.stride_h,
                       .stride_w = conv.stride_w,
                       .channels = channels,
                       .output_channels = dims.weights[0] / groups,
                       .pixels = output_pixels(window, dims),
                       .native_dimension = native_dimension};
    const bool dilated = conv.dilation_h != 1 || conv.dilation_w != 1;
    if (dilated || groups != 1 || !sharing_takes_less(sum)) conv.cut = BlockCut::kIm2col;
  }
  return conv;
}

void emit_conv(Op& op, const std::string& output, std::vector<TensorId> inputs,
               const ConvAttributes& conv) {
  Lowering& at = op.at;
  const Shape x_dims = at.tensor(inputs[0]).dims;
  if (x_dims.size() == 4) {
    at.emit_value(op, output, std::move(inputs), conv);
    return;
  }
  const model::TypedValue& typed = at.type(output);
  inputs[0] = at.emit_reshape(op, "image", inputs[0], as_image(x_dims));
  const TensorId image = at.emit(op, "conv", std::move(inputs), conv, at.inner_format(typed.format),
                                 as_image(typed.dims));
  at.emit_value(op, output, {image},
                MoveAttributes{false, 0, {dense_box(element_count(typed.dims))}});
}

}  // namespace tessera::graph
