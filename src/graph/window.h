// Kernel windows of Conv, ConvTranspose and the pools over two axes: attributes with auto_pad
// resolved to numbers. One spatial axis is taken as height 1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "graph/lowering.h"

namespace tessera::graph {

struct Window {
  std::array<std::int64_t, 2> kernel = {1, 1};
  std::array<std::int64_t, 2> stride = {1, 1};
  std::array<std::int64_t, 2> dilation = {1, 1};
  std::array<std::int64_t, 2> pad_begin = {0, 0};
  std::array<std::int64_t, 2> pad_end = {0, 0};

  std::int64_t reach(std::size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
};

// [N, C, L] as [N, C, 1, L]; rank 4 stays.
Shape as_image(const Shape& dims);

// Reads strides, dilations, pads and auto_pad of the node. `kernel` is the spatial part of the
// kernel (1 or 2 axes), `input` that of the data. SAME_* pads are computed for `input`.
Window read_window(const Op& op, const std::vector<std::int64_t>& kernel, const Shape& input);

// A list of one or two numbers, the height first; missing heights are `otherwise`.
std::array<std::int64_t, 2> as_pair(const std::vector<std::int64_t>& list, std::int64_t otherwise);

// One spatial axis of a window.
struct AxisWindow {
  std::int64_t kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  std::int64_t reach() const { return dilation * (kernel - 1) + 1; }
};

// The window of each spatial axis, however many there are; auto_pad is resolved for the input's
// extents.
std::vector<AxisWindow> read_axis_windows(const Op& op, const std::vector<std::int64_t>& kernel,
                                          const Shape& input);

// Two axes, height and width, as one window.
Window as_window(const AxisWindow& height, const AxisWindow& width);

}  // namespace tessera::graph
