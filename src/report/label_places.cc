#include "report/label_places.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tessera::report {
namespace {

constexpr double kGap = 2;  // between a point and the label beside it

LabelBox box_of_point(const LabelledPoint& point) {
  return {.left = point.x - kPointRadius,
          .top = point.y - kPointRadius,
          .width = 2 * kPointRadius,
          .height = 2 * kPointRadius};
}

// The first place that meets nothing in `taken`, among those a column of lines further and further
// from the point.
LabelBox nearest_free(const LabelledPoint& point, double height,
                      const std::vector<LabelBox>& taken) {
  const auto is_free = [&](const LabelBox& box) {
    const bool inside = box.left >= 0 && box.top >= 0 && box.top + box.height <= height;
    return inside && std::none_of(taken.begin(), taken.end(),
                                  [&](const LabelBox& other) { return box.meets(other); });
  };
  const double beside = kPointRadius + kGap;
  for (double right = point.x + beside;; right += kLabelHeight) {
    for (double lines = 0; lines * kLabelHeight <= height; ++lines) {
      for (const double down : {lines, -lines}) {
        for (const double left : {right, point.x - beside - point.width}) {
          const LabelBox box = {.left = left,
                                .top = point.y + (down - 0.5) * kLabelHeight,
                                .width = point.width,
                                .height = kLabelHeight,
                                .apart = lines > 0 || right > point.x + beside};
          if (is_free(box)) return box;
        }
      }
    }
  }
}

}  // namespace

std::vector<LabelBox> place_labels(std::span<const LabelledPoint> points, double height) {
  std::vector<LabelBox> taken;
  for (const LabelledPoint& point : points) taken.push_back(box_of_point(point));
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return points[a].x < points[b].x; });
  std::vector<LabelBox> boxes(points.size());
  for (const std::size_t i : order) {
    boxes[i] = nearest_free(points[i], height, taken);
    taken.push_back(boxes[i]);
  }
  return boxes;
}

}  // namespace tessera::report
