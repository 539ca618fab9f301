#include "report/label_places.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::report {
namespace {

constexpr double kHeight = 400;

void expect_readable(const std::vector<LabelledPoint>& points) {
  const std::vector<LabelBox> boxes = place_labels(points, kHeight);
  ASSERT_EQ(boxes.size(), points.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    EXPECT_EQ(boxes[i].width, points[i].width);
    EXPECT_GE(boxes[i].top, 0);
    EXPECT_LE(boxes[i].top + boxes[i].height, kHeight);
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      EXPECT_FALSE(k != i && boxes[i].meets(boxes[k])) << i << " and " << k;
      const LabelBox point = {.left = points[k].x - kPointRadius,
                              .top = points[k].y - kPointRadius,
                              .width = 2 * kPointRadius,
                              .height = 2 * kPointRadius};
      EXPECT_FALSE(boxes[i].meets(point)) << i << " and point " << k;
    }
  }
}

TEST(PlaceLabels, LonelyPointsHaveTheirLabelsBesideThem) {
  const std::vector<LabelBox> boxes =
      place_labels(std::vector<LabelledPoint>{{.x = 100, .y = 200, .width = 30}}, kHeight);
  EXPECT_EQ(boxes[0].left, 106);
  EXPECT_EQ(boxes[0].top, 194.5);
  EXPECT_FALSE(boxes[0].apart);
}

TEST(PlaceLabels, NeighboursDoNotCoverEachOther) {
  expect_readable({{.x = 100, .y = 200, .width = 40}, {.x = 103, .y = 201, .width = 60}});
  expect_readable({{.x = 5, .y = 2, .width = 40}, {.x = 5, .y = 2, .width = 40}});
  expect_readable({{.x = 699, .y = 399, .width = 40}, {.x = 699, .y = 399, .width = 40}});
}

TEST(PlaceLabels, CrowdsStayReadableAndComeOutTheSame) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 50; ++round) {
    std::vector<LabelledPoint> points;
    const double spread = 5 + round * 8;
    for (int i = 0; i < 25; ++i) {
      points.push_back({.x = 200 + spread * static_cast<double>(random() % 1000) / 1000,
                        .y = 100 + spread / 2 * static_cast<double>(random() % 1000) / 1000,
                        .width = 20 + static_cast<double>(random() % 60)});
    }
    SCOPED_TRACE(round);
    expect_readable(points);
    const std::vector<LabelBox> once = place_labels(points, kHeight),
                                again = place_labels(points, kHeight);
    for (std::size_t i = 0; i < once.size(); ++i) {
      EXPECT_EQ(once[i].left, again[i].left);
      EXPECT_EQ(once[i].top, again[i].top);
    }
  }
}

}  // namespace
}  // namespace tessera::report
