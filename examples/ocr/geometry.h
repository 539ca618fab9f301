// Plane geometry for text boxes: hull, smallest rectangle, perspective crop.
#pragma once

#include <array>
#include <vector>

#include "tessera/picture.h"

namespace ocr {

struct Point {
  double x = 0, y = 0;
};

// Corners in reading order: top left, top right, bottom right, bottom left.
using Box = std::array<Point, 4>;

struct RotatedRectangle {
  Point centre;
  Point axis;  // unit vector along the width
  double width = 0, height = 0;

  Box corners() const;
  RotatedRectangle grown(double distance) const;  // every side moved outwards by `distance`
};

std::vector<Point> convex_hull(std::vector<Point> points);
// The rectangle of smallest area around a convex polygon (a side lies on a hull edge).
RotatedRectangle smallest_rectangle(const std::vector<Point>& hull);
// Corners sorted into reading order.
Box reading_order(const Box& box);

// The box's contents as an upright picture. A box taller than 1.5 times its width is turned by 90
// degrees, since its text runs vertically.
tessera::Picture crop(const tessera::Picture& picture, const Box& box);
tessera::Picture turned_by_180(const tessera::Picture& picture);

}  // namespace ocr
