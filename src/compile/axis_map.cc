#include "compile/axis_map.h"

#include <algorithm>
#include <cstdlib>

namespace tessera::compile {

AxisMap::AxisMap(std::vector<MapAxis> axes, std::int64_t offset) : offset_(offset) {
  std::erase_if(axes, [](const MapAxis& axis) { return axis.extent == 1; });
  std::sort(axes.begin(), axes.end(),
            [](const MapAxis& a, const MapAxis& b) { return a.from_stride > b.from_stride; });
  for (const MapAxis& axis : axes) {
    if (!axes_.empty()) {
      MapAxis& outer = axes_.back();
      if (outer.from_stride == axis.from_stride * axis.extent &&
          outer.to_stride == axis.to_stride * axis.extent) {
        outer = {axis.from_stride, outer.extent * axis.extent, axis.to_stride};
        continue;
      }
    }
    axes_.push_back(axis);
  }
}

std::optional<StridedWalk> AxisMap::map(const StridedWalk& walk) const {
  if (!is_dense()) return walk_within(walk);
  return StridedWalk{
      .offset = offset_ + walk.offset, .extents = walk.extents, .strides = walk.strides};
}

std::optional<StridedWalk> AxisMap::walk_within(const StridedWalk& walk) const {
  StridedWalk result{.offset = offset_, .extents = walk.extents, .strides = {}};
  // The digit of the first element along each axis, then the farthest digit the walk reaches.
  std::vector<std::int64_t> reach(axes_.size(), 0);
  std::int64_t rest = walk.offset;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    reach[i] = rest / axes_[i].from_stride;
    rest -= reach[i] * axes_[i].from_stride;
    result.offset += reach[i] * axes_[i].to_stride;
  }
  if (rest != 0) return std::nullopt;
  for (std::size_t k = 0; k < walk.extents.size(); ++k) {
    const std::int64_t stride = walk.strides[k];
    if (walk.extents[k] == 1 || stride == 0) {
      result.strides.push_back(0);
      continue;
    }
    if (stride < 0) return std::nullopt;
    bool found = false;
    for (std::size_t i = 0; i < axes_.size() && !found; ++i) {
      if (stride % axes_[i].from_stride != 0) continue;
      const std::int64_t factor = stride / axes_[i].from_stride;
      if (factor * (walk.extents[k] - 1) >= axes_[i].extent) continue;
      reach[i] += factor * (walk.extents[k] - 1);
      result.strides.push_back(factor * axes_[i].to_stride);
      found = true;
    }
    if (!found) return std::nullopt;
  }
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    if (reach[i] >= axes_[i].extent) return std::nullopt;
  }
  return result;
}

// Parts of the axis that lie within one axis of the other map each, where it walks them evenly.
std::vector<MapAxis> AxisMap::split(MapAxis axis) const {
  std::vector<MapAxis> parts;
  while (axis.extent > 1 && axis.to_stride > 0) {
    const auto holds = std::find_if(axes_.begin(), axes_.end(), [&](const MapAxis& of) {
      return axis.to_stride % of.from_stride == 0 && axis.to_stride / of.from_stride < of.extent;
    });
    if (holds == axes_.end()) break;
    const std::int64_t factor = axis.to_stride / holds->from_stride;
    const std::int64_t inner = holds->extent / factor;
    if (factor * (axis.extent - 1) < holds->extent) break;
    if (holds->extent % factor != 0 || axis.extent % inner != 0) break;
    parts.push_back({axis.from_stride, inner, axis.to_stride});
    axis = {axis.from_stride * inner, axis.extent / inner, axis.to_stride * inner};
  }
  parts.push_back(axis);
  return parts;
}

std::optional<AxisMap> AxisMap::then(const AxisMap& next) const {
  if (is_dense() && offset_ == 0) return next;  // its one axis may cross several of `next`
  std::vector<MapAxis> own;
  for (const MapAxis& axis : axes_) {
    const std::vector<MapAxis> parts = next.split(axis);
    own.insert(own.end(), parts.begin(), parts.end());
  }
  StridedWalk walk{.offset = offset_, .extents = {}, .strides = {}};
  for (const MapAxis& axis : own) {
    walk.extents.push_back(axis.extent);
    walk.strides.push_back(axis.to_stride);
  }
  const auto mapped = next.map(walk);
  if (!mapped) return std::nullopt;
  std::vector<MapAxis> axes;
  for (std::size_t i = 0; i < own.size(); ++i) {
    axes.push_back({own[i].from_stride, own[i].extent, mapped->strides[i]});
  }
  return AxisMap(std::move(axes), mapped->offset);
}

bool AxisMap::is_dense() const {
  return axes_.empty() ||
         (axes_.size() == 1 && axes_[0].from_stride == 1 && axes_[0].to_stride == 1);
}

bool AxisMap::covers(std::int64_t elements) const {
  std::int64_t span = 1;
  for (std::size_t i = axes_.size(); i > 0; --i) {
    if (axes_[i - 1].from_stride != span) return false;
    span *= axes_[i - 1].extent;
  }
  return span == elements;
}

}  // namespace tessera::compile
