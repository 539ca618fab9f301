#include "model/ops/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "model/ops/elements.h"

namespace tessera::model::ops {

namespace {

Status fill(const Call& call, const std::string& name, std::int64_t lowest, Integers& values) {
  const Integers given = call.attribute_integers(name, values);
  if (given.size() != values.size()) {
    return invalid(fmt::format("attribute '{}' has {} values, {} are needed", name, given.size(),
                               values.size()));
  }
  for (const std::int64_t value : given) {
    if (value < lowest || value > kDimensionMax) {
      return invalid(fmt::format("attribute '{}' holds {}, allowed: {} to {}", name, value, lowest,
                                 kDimensionMax));
    }
  }
  values = given;
  return {};
}

}  // namespace

Result<Shape> kernel_shape(const Call& call, const Shape* weights) {
  Shape own;
  if (weights != nullptr) own.assign(weights->begin() + 2, weights->end());
  if (!call.has_attribute("kernel_shape")) {
    if (weights == nullptr) return invalid("attribute 'kernel_shape' is missing");
    return own;
  }
  Shape given = call.attribute_integers("kernel_shape", {});
  if (weights != nullptr && given != own) {
    return invalid(fmt::format("attribute 'kernel_shape' is {}, the weights' shape is {}",
                               shape_text(given), shape_text(*weights)));
  }
  return given;
}

Result<Window> window_parameters(const Call& call, const Shape& kernel) {
  TESSERA_RETURN_IF_ERROR(call.require_rank_at_least(0, 2));
  const std::size_t axes = call.dims(0).size() - 2;
  if (kernel.size() != axes) {
    return invalid(fmt::format("a kernel of shape {} for an input of shape {}", shape_text(kernel),
                               shape_text(call.dims(0))));
  }
  Integers strides(axes, 1);
  Integers dilations(axes, 1);
  Integers pads(2 * axes, 0);
  TESSERA_RETURN_IF_ERROR(fill(call, "strides", 1, strides));
  TESSERA_RETURN_IF_ERROR(fill(call, "dilations", 1, dilations));
  TESSERA_RETURN_IF_ERROR(fill(call, "pads", 0, pads));
  TESSERA_RETURN_IF_ERROR(check_size(Format::kI8, kernel));
  Window window(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    if (kernel[i] < 1 || kernel[i] > kDimensionMax) {
      return invalid(fmt::format("a kernel of shape {}", shape_text(kernel)));
    }
    window[i] = {call.dims(0)[i + 2], kernel[i], strides[i], dilations[i], pads[i],
                 pads[i + axes],      0};
    if (window[i].extent() > (kDimensionMax << 4)) {
      return invalid(fmt::format("axis {}: a kernel of {} with dilation {} is too large", i + 2,
                                 kernel[i], dilations[i]));
    }
  }
  return window;
}

Result<Window> plan_window(const Call& call, const Shape& kernel, bool ceil_mode) {
  TESSERA_TRY(Window window, window_parameters(call, kernel));
  const std::string auto_pad = call.attribute_string("auto_pad", "NOTSET");
  for (std::size_t i = 0; i < window.size(); ++i) {
    WindowAxis& axis = window[i];
    if (auto_pad == "VALID") axis.before = axis.after = 0;
    if (auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER") {
      axis.output = (axis.input + axis.stride - 1) / axis.stride;
      const std::int64_t needed =
          std::max<std::int64_t>(0, (axis.output - 1) * axis.stride + axis.extent() - axis.input);
      axis.before = auto_pad == "SAME_UPPER" ? needed / 2 : needed - needed / 2;
      axis.after = needed - axis.before;
      continue;
    }
    const std::int64_t room = axis.input + axis.before + axis.after - axis.extent();
    if (room < 0) {
      return invalid(fmt::format("axis {}: a window of {} does not fit into {} with pads {} and {}",
                                 i + 2, axis.extent(), axis.input, axis.before, axis.after));
    }
    axis.output = (ceil_mode ? (room + axis.stride - 1) : room) / axis.stride + 1;
    // A window that begins behind the input sees nothing.
    if (ceil_mode && (axis.output - 1) * axis.stride >= axis.input + axis.before) --axis.output;
  }
  return window;
}

void find_taps(const Window& window, const std::vector<std::int64_t>& at, std::vector<Tap>& taps) {
  taps.clear();
  taps.push_back({});
  // Axis by axis: every tap so far meets every place of this axis that is inside.
  std::vector<Tap> wider;
  for (std::size_t i = 0; i < window.size(); ++i) {
    const WindowAxis& axis = window[i];
    wider.clear();
    const std::int64_t start = at[i] * axis.stride - axis.before;
    const std::int64_t first = start >= 0 ? 0 : ceil_div(-start, axis.dilation);
    const std::int64_t end =
        start >= axis.input ? 0
                            : std::min(axis.kernel, ceil_div(axis.input - start, axis.dilation));
    for (const Tap& tap : taps) {
      for (std::int64_t k = first; k < end; ++k) {
        const std::int64_t position = start + k * axis.dilation;
        wider.push_back({tap.kernel * axis.kernel + k, tap.input * axis.input + position});
      }
    }
    taps.swap(wider);
  }
}

Shape output_plane(const Window& window) {
  Shape dims;
  for (const WindowAxis& axis : window) dims.push_back(axis.output);
  return dims;
}

}  // namespace tessera::model::ops
