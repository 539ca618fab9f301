// Where the elements of one dense block go in another: a mixed-radix strided map.
//
//   flat offset in the source = sum of digit_i * from_stride_i
//     ─► offset + sum of digit_i * to_stride_i
//
// Reshapes, transpositions, slices and the parts of a concatenation are all of this form. A strided
// view of the source maps to a strided view of the target where each of its axes stays within one
// axis of the map.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::compile {

struct MapAxis {
  std::int64_t from_stride = 0;
  std::int64_t extent = 1;
  std::int64_t to_stride = 0;
  friend bool operator==(const MapAxis&, const MapAxis&) = default;
};

// A strided walk: element i... lies at offset + sum of i_k * strides_k.
struct StridedWalk {
  std::int64_t offset = 0;
  std::vector<std::int64_t> extents;
  std::vector<std::int64_t> strides;
};

class AxisMap {
 public:
  AxisMap() = default;
  // Axes in any order; they must not overlap (each from_stride is at least the span of the axes
  // below it). Axes of extent 1 are dropped, contiguous neighbours merged.
  AxisMap(std::vector<MapAxis> axes, std::int64_t offset);
  static AxisMap dense(std::int64_t elements) { return {{{1, elements, 1}}, 0}; }

  // The same walk over the target; none where an axis of the walk crosses axes of the map. A dense
  // map takes every walk as it is.
  std::optional<StridedWalk> map(const StridedWalk& walk) const;
  // Like map(), and none as well where the walk leaves the source or has a negative stride.
  std::optional<StridedWalk> walk_within(const StridedWalk& walk) const;
  // First this map, then `next`; none where an axis of this one crosses axes of `next` and not evenly.
  std::optional<AxisMap> then(const AxisMap& next) const;
  // Exactly element i to element offset + i.
  bool is_dense() const;
  // The source is a dense block of `elements`, every element of it appears once.
  bool covers(std::int64_t elements) const;

  const std::vector<MapAxis>& axes() const { return axes_; }
  std::int64_t offset() const { return offset_; }

 private:
  std::vector<MapAxis> split(MapAxis axis) const;

  std::vector<MapAxis> axes_;  // descending from_stride
  std::int64_t offset_ = 0;
};

}  // namespace tessera::compile
