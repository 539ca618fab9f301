#include "compile/fill_walks.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

using Ints = std::vector<std::int64_t>;

// How often each element is walked over.
void walk_over(const StridedWalk& walk, std::vector<int>& times) {
  std::int64_t count = 1;
  for (const std::int64_t extent : walk.extents) count *= extent;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = walk.offset, left = i;
    for (std::size_t axis = walk.extents.size(); axis-- > 0;) {
      at += left % walk.extents[axis] * walk.strides[axis];
      left /= walk.extents[axis];
    }
    ++times[static_cast<std::size_t>(at)];
  }
}

std::vector<int> box_and_around(const graph::CopyBox& box, std::int64_t count) {
  std::vector<int> times(static_cast<std::size_t>(count), 0);
  walk_over({box.output_offset, box.extents, box.output_strides}, times);
  for (const StridedWalk& walk : walks_around(box, count)) walk_over(walk, times);
  return times;
}

TEST(FillWalks, EveryElementIsCopiedOrFilledOnce) {
  // [3, 6, 7] with [3, 4, 5] in it; columns at one end; a line.
  const graph::CopyBox boxes[] = {
      {0, 0, 7 + 1, {3, 4, 5}, {20, 5, 1}, {42, 7, 1}},
      {0, 0, 0, {3, 6, 3}, {18, 3, 1}, {42, 7, 1}},
      {0, 0, 11, {100}, {1}, {1}},
  };
  for (const graph::CopyBox& box : boxes) {
    EXPECT_EQ(box_and_around(box, 126), std::vector<int>(126, 1));
  }
}

TEST(FillWalks, ABoxThatWrapsAroundOrHasGapsHasNone) {
  EXPECT_TRUE(walks_around({0, 0, 0, {3, 6, 3}, {18, 3, 1}, {42, 7, 2}}, 126).empty());
  EXPECT_TRUE(walks_around({0, 0, 5, {3, 6, 3}, {18, 3, 1}, {42, 7, 1}}, 126).empty());
  EXPECT_TRUE(walks_around({0, 0, 0, {4, 10}, {10, 1}, {25, 1}}, 126).empty());
}

TEST(FillWalks, RunsAreWholeWhereRowsAre) {
  const auto walks = walks_around({0, 0, 14, {4, 7}, {7, 1}, {7, 1}}, 42);
  ASSERT_EQ(walks.size(), 1U);
  EXPECT_EQ(walks[0].offset, 0);
  EXPECT_EQ(walks[0].extents, Ints{14});
}

TEST(FillWalks, BoxesInPlanesOfTheirOwnHaveMarginsOfTheirOwn) {
  // Planes of [6, 7]: columns at the end, all of it, columns at the beginning; not in their order.
  const std::vector<graph::CopyBox> boxes = {
      {0, 0, 84, {6, 3}, {3, 1}, {7, 1}},
      {0, 0, 42, {42}, {1}, {1}},
      {0, 0, 2, {6, 5}, {5, 1}, {7, 1}},
  };
  std::vector<int> times(126, 0);
  for (const graph::CopyBox& box : boxes) {
    walk_over({box.output_offset, box.extents, box.output_strides}, times);
  }
  for (const StridedWalk& walk : walks_around(boxes, 126)) walk_over(walk, times);
  EXPECT_EQ(times, std::vector<int>(126, 1));
}

TEST(FillWalks, BoxesOfOnePlaneOrOfSeveralHaveNone) {
  const std::vector<graph::CopyBox> same = {{0, 0, 0, {7}, {1}, {1}}, {0, 0, 14, {7}, {1}, {1}}};
  EXPECT_TRUE(walks_around(same, 126).empty());
  const std::vector<graph::CopyBox> across = {{0, 0, 0, {70}, {1}, {1}}, {0, 0, 70, {7}, {1}, {1}}};
  EXPECT_TRUE(walks_around(across, 126).empty());
}

}  // namespace
}  // namespace tessera::compile
