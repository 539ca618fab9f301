// Where the labels of a plot's points go so that none covers another, or a point.
//
//   nearest free place first: right of the point, left of it, then both sides a line higher and
//   lower, two lines, ...; points from left to right, so that the same points give the same picture
#pragma once

#include <span>
#include <vector>

namespace tessera::report {

struct LabelledPoint {
  double x = 0, y = 0;
  double width = 0;  // of the label
};

struct LabelBox {
  double left = 0, top = 0, width = 0, height = 0;
  bool apart = false;  // not beside its point

  bool meets(const LabelBox& other) const {
    return left < other.left + other.width && other.left < left + width &&
           top < other.top + other.height && other.top < top + height;
  }
};

inline constexpr double kLabelHeight = 11;
inline constexpr double kPointRadius = 4;

// A box a point, in the order of the points: right of 0 and between 0 and `height` (at least a
// line). Where all is full there they go on to the right.
std::vector<LabelBox> place_labels(std::span<const LabelledPoint> points, double height);

}  // namespace tessera::report
