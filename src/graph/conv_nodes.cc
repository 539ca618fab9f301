#include "graph/conv_nodes.h"

#include <utility>

#include "base/quantity.h"
#include "graph/move_box.h"

namespace tessera::graph {

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
    conv.cut = BlockCut::kIm2col;
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
