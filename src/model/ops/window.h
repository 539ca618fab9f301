// Windows that slide over spatial axes: what convolution and pooling share.
//
//   padded axis   [before | input ............. | after]
//   taps            x   x   x      first at stride * o - before, `dilation` apart
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

struct WindowAxis {
  std::int64_t input = 0;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t before = 0;
  std::int64_t after = 0;
  std::int64_t output = 0;

  std::int64_t extent() const { return dilation * (kernel - 1) + 1; }
};
using Window = std::vector<WindowAxis>;

// From attributes auto_pad, strides, dilations, pads and, if `ceil_mode`, outputs rounded up. The
// spatial axes are input 0's from axis 2 on.
Result<Window> plan_window(const Call& call, const Shape& kernel, bool ceil_mode);

// Strides, dilations, pads and kernel alone; outputs and automatic pads are not yet known.
Result<Window> window_parameters(const Call& call, const Shape& kernel);

// The attribute kernel_shape; it must agree with `weights`' spatial dimensions where they are
// given.
Result<Shape> kernel_shape(const Call& call, const Shape* weights);

// One position of a window that lies inside the input.
struct Tap {
  std::int64_t kernel = 0;  // position in the kernel, row-major
  std::int64_t input = 0;   // position in the input plane, row-major
};
// All of them for the output position `at`, in kernel order.
void find_taps(const Window& window, const std::vector<std::int64_t>& at, std::vector<Tap>& taps);

Shape output_plane(const Window& window);

}  // namespace tessera::model::ops
