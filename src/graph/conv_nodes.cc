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
  std::int64_t pixels = 1;  // of the output
  std::int64_t native_dimension = 1;
};

constexpr std::int64_t kSideBySide = 8;  // different input pixels in a matrix, at most

// What a matrix of N x N takes for `moving` vectors while the next one is brought, `loads` times a row
// at a time.
double matrix_cost(const SumShape& of, double moving, std::int64_t loads) {
  return std::max(moving, static_cast<double>(loads * of.native_dimension));
}

// Matrices across taps, which belong to one output pixel. What is left of the sum takes several side
// by side.
double across_taps_cost(const SumShape& of) {
  const std::int64_t n = of.native_dimension;
  const std::int64_t sum = of.kernel_h * of.kernel_w * of.channels;
  const std::int64_t rest = sum % n;
  const auto pixels = static_cast<double>(of.pixels);
  double cost = static_cast<double>(sum / n) * matrix_cost(of, pixels, 1);
  if (rest == 0) return cost;
  const std::int64_t places = n / of.output_channels;
  const auto sides =
      static_cast<double>(std::max<std::int64_t>(1, std::min({places, n / rest, kSideBySide})));
  return cost + matrix_cost(of, pixels / sides, 1);
}

// Matrices along channels, for `h` x `w` neighbouring output pixels, which share those of the input
// pixels that they read: `stacked` of these below each other.
double sharing_cost(const SumShape& of, std::int64_t h, std::int64_t w, std::int64_t stacked) {
  const std::int64_t read = (of.kernel_h + (h - 1) * std::min(of.stride_h, of.kernel_h)) *
                            (of.kernel_w + (w - 1) * std::min(of.stride_w, of.kernel_w));
  const std::int64_t matrices =
      ceil_div(of.channels, of.native_dimension) * ceil_div(read, stacked);
  const double moving = static_cast<double>(of.pixels) / static_cast<double>(h * w);
  // Kernel rows that are no wider together than a matrix are brought at once.
  const std::int64_t rows = std::min(h, of.kernel_h);
  const std::int64_t width =
      rows * of.kernel_w * of.output_channels * ceil_div(of.channels, of.native_dimension);
  const std::int64_t loads = std::min(rows, ceil_div(width, of.native_dimension));
  return static_cast<double>(matrices) * matrix_cost(of, moving, loads);
}

// Few output channels leave room in a matrix of N x N for several pixels. Then blocks along the
// channels of a tap take fewer products of N x N than blocks across taps, for output pixels share the
// blocks of the input pixels that they read.
bool sharing_takes_less(const SumShape& of) {
  constexpr double kWorth = 0.8;
  constexpr std::int64_t kStackedRows = 32;  // that an input pixel takes, in whole
  const std::int64_t n = of.native_dimension;
  const std::int64_t places = n / of.output_channels;
  const double most = kWorth * across_taps_cost(of);
  const std::int64_t rows = ceil_div(of.channels, kStackedRows) * kStackedRows;
  const std::int64_t sides = std::max<std::int64_t>(1, std::min(n / of.channels, kSideBySide));
  const std::int64_t stacked = std::clamp<std::int64_t>(n / rows, 1, kSideBySide);
  for (std::int64_t h = 1; h <= places; ++h) {
    for (std::int64_t w = 1; w <= places / h; ++w) {
      if (sharing_cost(of, h, w, stacked) < most) return true;
    }
    for (std::int64_t side = 2; side <= std::min(sides, places / h); ++side) {
      SumShape part = of;
      part.pixels = ceil_div(of.pixels, side);
      if (sharing_cost(part, h, places / side / h, 1) < most) return true;
    }
  }
  return false;
}

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
