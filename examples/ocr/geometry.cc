#include "geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ocr {
namespace {

double cross(const Point& o, const Point& a, const Point& b) {
  return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x);
}

double distance(const Point& a, const Point& b) { return std::hypot(a.x - b.x, a.y - b.y); }

// The homography that takes the unit square's corners (0,0) (1,0) (1,1) (0,1) to the box.
struct Homography {
  double a, b, c, d, e, f, g, h;

  explicit Homography(const Box& q) {
    const double dx1 = q[1].x - q[2].x, dx2 = q[3].x - q[2].x;
    const double dy1 = q[1].y - q[2].y, dy2 = q[3].y - q[2].y;
    const double sx = q[0].x - q[1].x + q[2].x - q[3].x;
    const double sy = q[0].y - q[1].y + q[2].y - q[3].y;
    const double determinant = dx1 * dy2 - dx2 * dy1;
    g = determinant == 0 ? 0 : (sx * dy2 - dx2 * sy) / determinant;
    h = determinant == 0 ? 0 : (dx1 * sy - sx * dy1) / determinant;
    a = q[1].x - q[0].x + g * q[1].x;
    b = q[3].x - q[0].x + h * q[3].x;
    c = q[0].x;
    d = q[1].y - q[0].y + g * q[1].y;
    e = q[3].y - q[0].y + h * q[3].y;
    f = q[0].y;
  }
  Point at(double u, double v) const {
    const double w = g * u + h * v + 1;
    return {(a * u + b * v + c) / w, (d * u + e * v + f) / w};
  }
};

// Bilinear sample; outside the picture its edge is repeated.
void sample(const tessera::Picture& picture, Point at, std::uint8_t* rgb) {
  const double x = std::clamp(at.x, 0.0, static_cast<double>(picture.width - 1));
  const double y = std::clamp(at.y, 0.0, static_cast<double>(picture.height - 1));
  const auto x0 = static_cast<std::int64_t>(x), y0 = static_cast<std::int64_t>(y);
  const std::int64_t x1 = std::min(x0 + 1, picture.width - 1);
  const std::int64_t y1 = std::min(y0 + 1, picture.height - 1);
  const double fx = x - static_cast<double>(x0), fy = y - static_cast<double>(y0);
  for (int c = 0; c < 3; ++c) {
    const double top = picture.pixel(x0, y0)[c] * (1 - fx) + picture.pixel(x1, y0)[c] * fx;
    const double bottom = picture.pixel(x0, y1)[c] * (1 - fx) + picture.pixel(x1, y1)[c] * fx;
    rgb[c] = static_cast<std::uint8_t>(std::lround(top * (1 - fy) + bottom * fy));
  }
}

tessera::Picture turned_by_90(const tessera::Picture& picture) {
  tessera::Picture result = tessera::Picture::blank(picture.height, picture.width, 0);
  for (std::int64_t y = 0; y < result.height; ++y) {
    for (std::int64_t x = 0; x < result.width; ++x) {
      std::copy_n(picture.pixel(picture.width - 1 - y, x), 3, result.pixel(x, y));
    }
  }
  return result;
}

}  // namespace

Box RotatedRectangle::corners() const {
  const Point across{-axis.y, axis.x};
  const auto corner = [&](double u, double v) {
    return Point{centre.x + axis.x * u * width / 2 + across.x * v * height / 2,
                 centre.y + axis.y * u * width / 2 + across.y * v * height / 2};
  };
  return {corner(-1, -1), corner(1, -1), corner(1, 1), corner(-1, 1)};
}

RotatedRectangle RotatedRectangle::grown(double margin) const {
  RotatedRectangle result = *this;
  result.width += 2 * margin;
  result.height += 2 * margin;
  return result;
}

std::vector<Point> convex_hull(std::vector<Point> points) {
  std::sort(points.begin(), points.end(),
            [](const Point& a, const Point& b) { return a.x < b.x || (a.x == b.x && a.y < b.y); });
  if (points.size() < 3) return points;
  std::vector<Point> hull(points.size() * 2);
  std::size_t size = 0;
  for (const Point& point : points) {
    while (size >= 2 && cross(hull[size - 2], hull[size - 1], point) <= 0) --size;
    hull[size++] = point;
  }
  const std::size_t lower = size + 1;
  for (std::size_t i = points.size() - 1; i-- > 0;) {
    while (size >= lower && cross(hull[size - 2], hull[size - 1], points[i]) <= 0) --size;
    hull[size++] = points[i];
  }
  hull.resize(size - 1);
  return hull;
}

RotatedRectangle smallest_rectangle(const std::vector<Point>& hull) {
  RotatedRectangle best;
  double best_area = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < hull.size(); ++i) {
    const Point& from = hull[i];
    const Point& to = hull[(i + 1) % hull.size()];
    const double length = distance(from, to);
    if (length == 0) continue;
    const Point axis{(to.x - from.x) / length, (to.y - from.y) / length};
    double u0 = std::numeric_limits<double>::infinity(), u1 = -u0, v0 = u0, v1 = -u0;
    for (const Point& p : hull) {
      const double u = p.x * axis.x + p.y * axis.y, v = -p.x * axis.y + p.y * axis.x;
      u0 = std::min(u0, u), u1 = std::max(u1, u), v0 = std::min(v0, v), v1 = std::max(v1, v);
    }
    const double area = (u1 - u0) * (v1 - v0);
    if (area >= best_area) continue;
    best_area = area;
    const double u = (u0 + u1) / 2, v = (v0 + v1) / 2;
    best = {{u * axis.x - v * axis.y, u * axis.y + v * axis.x}, axis, u1 - u0, v1 - v0};
  }
  return best;
}

Box reading_order(const Box& box) {
  Box sorted = box;
  std::sort(sorted.begin(), sorted.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
  if (sorted[0].y > sorted[1].y) std::swap(sorted[0], sorted[1]);  // left: top, bottom
  if (sorted[2].y > sorted[3].y) std::swap(sorted[2], sorted[3]);  // right: top, bottom
  return {sorted[0], sorted[2], sorted[3], sorted[1]};
}

tessera::Picture crop(const tessera::Picture& picture, const Box& box) {
  const double width = std::max(distance(box[0], box[1]), distance(box[3], box[2]));
  const double height = std::max(distance(box[0], box[3]), distance(box[1], box[2]));
  const auto columns = std::max<std::int64_t>(1, std::lround(width));
  const auto rows = std::max<std::int64_t>(1, std::lround(height));
  tessera::Picture result = tessera::Picture::blank(columns, rows, 0);
  const Homography map(box);
  for (std::int64_t y = 0; y < rows; ++y) {
    for (std::int64_t x = 0; x < columns; ++x) {
      sample(picture,
             map.at(static_cast<double>(x) / static_cast<double>(columns),
                    static_cast<double>(y) / static_cast<double>(rows)),
             result.pixel(x, y));
    }
  }
  return 2 * rows >= 3 * columns ? turned_by_90(result) : result;
}

tessera::Picture turned_by_180(const tessera::Picture& picture) {
  tessera::Picture result = picture;
  for (std::int64_t y = 0; y < picture.height; ++y) {
    for (std::int64_t x = 0; x < picture.width; ++x) {
      std::copy_n(picture.pixel(picture.width - 1 - x, picture.height - 1 - y), 3,
                  result.pixel(x, y));
    }
  }
  return result;
}

}  // namespace ocr
