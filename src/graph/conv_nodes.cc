#include "graph/conv_nodes.h"

#include <algorithm>
#include <utility>

#include "base/quantity.h"
#include "graph/move_box.h"

namespace tessera::graph {
namespace {

// What the choice of a cut looks at.
struct SumShape {
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t channels = 1, output_channels = 1;
  std::int64_t native_dimension = 1;
};

// Blocks for each of `h` x `w` neighbouring output pixels, which share those of the input pixels that
// they read.
double shared_blocks(const SumShape& of, std::int64_t h, std::int64_t w) {
  const std::int64_t read = (of.kernel_h + (h - 1) * std::min(of.stride_h, of.kernel_h)) *
                            (of.kernel_w + (w - 1) * std::min(of.stride_w, of.kernel_w));
  return static_cast<double>(read * ceil_div(of.channels, of.native_dimension)) /
         static_cast<double>(h * w);
}

// Few output channels leave room in a matrix of N x N for several pixels. Then blocks along the
// channels of a tap take fewer products of N x N than blocks across taps, for output pixels share the
// blocks of the input pixels that they read.
bool sharing_takes_less(const SumShape& of) {
  constexpr std::int64_t kSideBySide = 8;  // different input pixels, at most
  constexpr double kWorth = 0.8;
  const std::int64_t n = of.native_dimension;
  const std::int64_t places = n / of.output_channels;
  const std::int64_t across_taps = of.kernel_h * of.kernel_w * of.channels;
  const std::int64_t rest = across_taps % n;
  double across = static_cast<double>(across_taps / n);
  if (rest != 0) across += 1.0 / static_cast<double>(std::min({places, n / rest, kSideBySide}));
  const std::int64_t sides =
      std::max<std::int64_t>(1, std::min({places, n / of.channels, kSideBySide}));
  for (std::int64_t side = 1; side <= sides; ++side) {
    for (std::int64_t h = 1; h <= places / side; ++h) {
      const std::int64_t w = places / side / h;
      if (shared_blocks(of, h, w) / static_cast<double>(side) < kWorth * across) return true;
    }
  }
  return false;
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
