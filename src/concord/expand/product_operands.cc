#include "concord/expand/product_operands.h"

namespace tessera::concord {

using graph::Node;
using graph::PostProcess;

ValueId write_weights(Steps& steps, const std::vector<double>& values, Shape dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, std::move(dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.as<float>()[i] = static_cast<float>(values[i]);
  }
  return steps.cast(steps.constant(std::move(tensor)), Format::kF64);
}

WindowAxis rows_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                   const Shape& y) {
  return {x[2], w[2], conv.stride_h, conv.pad_top, conv.dilation_h, conv.input_dilation_h, y[2]};
}

WindowAxis columns_of(const graph::ConvAttributes& conv, const Shape& x, const Shape& w,
                      const Shape& y) {
  return {x[3], w[3], conv.stride_w, conv.pad_left, conv.dilation_w, conv.input_dilation_w, y[3]};
}

ValueId taps_matrix(Steps& steps, ValueId x, const graph::ConvAttributes& conv, const Shape& w,
                    const Shape& y) {
  const Shape dims = steps.dims(x);
  const std::int64_t taps = w[2] * w[3], pixels = y[2] * y[3];
  const Shape matrix = conv.groups == 1 ? Shape{dims[0], w[1] * taps, pixels}
                                        : Shape{dims[0], conv.groups, w[1] * taps, pixels};
  const WindowAxis rows = rows_of(conv, dims, w, y), columns = columns_of(conv, dims, w, y);
  if (rows.is_whole() && columns.is_whole()) return steps.reshape(x, matrix);
  const ValueId view = window_view(steps, x, rows, columns, 0.0);
  if (conv.groups == 1) {
    return steps.reshape(steps.transpose(view, {0, 2, 4, 1, 3, 5}), matrix);
  }
  const ValueId grouped = steps.reshape(view, {dims[0], conv.groups, w[1], w[2], y[2], w[3], y[3]});
  return steps.reshape(steps.transpose(grouped, {0, 1, 3, 5, 2, 4, 6}), matrix);
}

Result<Carried> finish_product(Expansion& at, const Node& node, ValueId y, const Traits& traits,
                               const PostProcess& post) {
  const Format format = at.info(node.outputs[0]).format;
  if (post.activation.function != UnaryFunction::kIdentity) at.begin_activation(node);
  return expand_activation(at, node, post.activation, {y, traits, false}, format, format);
}

}  // namespace tessera::concord
