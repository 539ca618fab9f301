#include "graph/window.h"

#include <algorithm>

#include "base/quantity.h"

namespace tessera::graph {

Shape as_image(const Shape& dims) {
  if (dims.size() != 3) return dims;
  return {dims[0], dims[1], 1, dims[2]};
}

std::array<std::int64_t, 2> as_pair(const std::vector<std::int64_t>& list, std::int64_t otherwise) {
  if (list.size() == 2) return {list[0], list[1]};
  if (list.size() == 1) return {otherwise, list[0]};
  return {otherwise, otherwise};
}

Window read_window(const Op& op, const std::vector<std::int64_t>& kernel, const Shape& input) {
  Window window;
  window.kernel = as_pair(kernel, 1);
  window.stride = as_pair(op.integer_list("strides"), 1);
  window.dilation = as_pair(op.integer_list("dilations"), 1);
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return window;
  if (auto_pad == "NOTSET" || auto_pad.empty()) {
    const std::vector<std::int64_t> pads = op.integer_list("pads");
    const std::size_t axes = pads.size() / 2;
    window.pad_begin = as_pair({pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes)}, 0);
    window.pad_end = as_pair({pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end()}, 0);
    return window;
  }
  const std::array<std::int64_t, 2> extent = as_pair(input, 1);
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t steps = ceil_div(extent[axis], window.stride[axis]);
    const std::int64_t total = std::max<std::int64_t>(
        0, (steps - 1) * window.stride[axis] + window.reach(axis) - extent[axis]);
    window.pad_begin[axis] = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
    window.pad_end[axis] = total - window.pad_begin[axis];
  }
  return window;
}

std::vector<AxisWindow> read_axis_windows(const Op& op, const std::vector<std::int64_t>& kernel,
                                          const Shape& input) {
  const std::vector<std::int64_t> strides = op.integer_list("strides");
  const std::vector<std::int64_t> dilations = op.integer_list("dilations");
  const std::vector<std::int64_t> pads = op.integer_list("pads");
  const std::string auto_pad = op.text("auto_pad", "NOTSET");
  const bool stated = auto_pad == "NOTSET" || auto_pad.empty();
  std::vector<AxisWindow> windows(kernel.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    AxisWindow& axis = windows[i];
    axis.kernel = kernel[i];
    if (i < strides.size()) axis.stride = strides[i];
    if (i < dilations.size()) axis.dilation = dilations[i];
    if (stated && pads.size() == 2 * windows.size()) {
      axis.pad_begin = pads[i];
      axis.pad_end = pads[i + windows.size()];
    }
    if (stated || auto_pad == "VALID") continue;
    const std::int64_t steps = ceil_div(input[i], axis.stride);
    const std::int64_t total =
        std::max<std::int64_t>(0, (steps - 1) * axis.stride + axis.reach() - input[i]);
    axis.pad_begin = auto_pad == "SAME_LOWER" ? total - total / 2 : total / 2;
    axis.pad_end = total - axis.pad_begin;
  }
  return windows;
}

Window as_window(const AxisWindow& height, const AxisWindow& width) {
  Window window;
  window.kernel = {height.kernel, width.kernel};
  window.stride = {height.stride, width.stride};
  window.dilation = {height.dilation, width.dilation};
  window.pad_begin = {height.pad_begin, width.pad_begin};
  window.pad_end = {height.pad_end, width.pad_end};
  return window;
}

}  // namespace tessera::graph
