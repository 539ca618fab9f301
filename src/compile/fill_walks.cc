#include "compile/fill_walks.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "graph/move_box.h"

namespace tessera::compile {
namespace {

// Of an axis with `frame` places the box has [first, first + extent).
struct FrameAxis {
  std::int64_t extent = 1, stride = 1;
  std::int64_t first = 0, frame = 1;
};

// Outermost first. None where strides are no whole multiples of each other, or the box wraps around.
std::optional<std::vector<FrameAxis>> frame_axes(const graph::CopyBox& box, std::int64_t count) {
  std::vector<FrameAxis> axes;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (box.extents[i] == 1) continue;
    if (box.extents[i] == 0 || box.output_strides[i] <= 0) return std::nullopt;
    axes.push_back({.extent = box.extents[i], .stride = box.output_strides[i]});
  }
  std::ranges::sort(axes, std::greater{}, &FrameAxis::stride);
  if (axes.empty() || axes.back().stride != 1) axes.push_back({});
  std::int64_t span = count, offset = box.output_offset;
  for (FrameAxis& axis : axes) {
    if (span % axis.stride != 0) return std::nullopt;
    axis.frame = span / axis.stride;
    axis.first = offset / axis.stride;
    if (axis.first + axis.extent > axis.frame) return std::nullopt;
    offset %= axis.stride;
    span = axis.stride;
  }
  return axes;
}

}  // namespace

std::vector<StridedWalk> walks_around(const graph::CopyBox& box, std::int64_t count) {
  const auto axes = frame_axes(graph::simplified(box), count);
  if (!axes) return {};
  std::vector<StridedWalk> walks;
  StridedWalk outer;  // the box, along the axes before this one
  for (const FrameAxis& axis : *axes) {
    const auto add = [&](std::int64_t first, std::int64_t places) {
      if (places == 0) return;
      StridedWalk walk = outer;
      walk.offset += first * axis.stride;
      walk.extents.push_back(places * axis.stride);
      walk.strides.push_back(1);
      walks.push_back(std::move(walk));
    };
    const std::int64_t end = axis.first + axis.extent;
    add(0, axis.first);
    add(end, axis.frame - end);
    outer.offset += axis.first * axis.stride;
    outer.extents.push_back(axis.extent);
    outer.strides.push_back(axis.stride);
  }
  return walks;
}

std::vector<StridedWalk> walks_around(std::span<const graph::CopyBox> boxes, std::int64_t count) {
  const auto planes = static_cast<std::int64_t>(boxes.size());
  if (planes == 0 || count % planes != 0) return {};
  const std::int64_t plane = count / planes;
  std::vector<bool> taken(boxes.size(), false);
  std::vector<StridedWalk> walks;
  for (graph::CopyBox box : boxes) {
    const auto [first, last] = graph::output_range(box);
    const std::int64_t index = first / plane;
    if (first < 0 || last / plane != index || taken[static_cast<std::size_t>(index)]) return {};
    taken[static_cast<std::size_t>(index)] = true;
    box.output_offset -= index * plane;
    std::vector<StridedWalk> around = walks_around(box, plane);
    if (around.empty() && graph::box_elements(box) != plane) return {};
    for (StridedWalk& walk : around) {
      walk.offset += index * plane;
      walks.push_back(std::move(walk));
    }
  }
  return walks;
}

}  // namespace tessera::compile
