#include "compile/axis_map.h"

#include <gtest/gtest.h>

namespace tessera::compile {
namespace {

TEST(AxisMap, ContiguousAxesMerge) {
  const AxisMap map({{12, 2, 12}, {4, 3, 4}, {1, 4, 1}}, 5);
  EXPECT_TRUE(map.is_dense());
  EXPECT_EQ(map.offset(), 5);
  EXPECT_TRUE(map.covers(24));
}

TEST(AxisMap, DenseMapTakesWhateverFollows) {
  const AxisMap transpose({{3, 4, 1}, {1, 3, 4}}, 5);
  const auto both = AxisMap::dense(12).then(transpose);
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->axes(), transpose.axes());
  EXPECT_EQ(both->offset(), 5);
}

TEST(AxisMap, TransposedAxisIsFollowed) {
  // [3, 4] to [4, 3].
  const AxisMap map({{3, 4, 1}, {1, 3, 4}}, 0);
  const auto walk = map.map({0, {4, 3}, {3, 1}});
  ASSERT_TRUE(walk);
  EXPECT_EQ(walk->strides, (std::vector<std::int64_t>{1, 4}));
}

TEST(AxisMap, WalkAcrossTwoAxesIsRefused) {
  const AxisMap map({{3, 4, 1}, {1, 3, 4}}, 0);
  EXPECT_FALSE(map.map({0, {12}, {1}}));
}

TEST(AxisMap, OffsetIsTakenApartIntoDigits) {
  const AxisMap map({{3, 4, 1}, {1, 3, 4}}, 100);
  const auto walk = map.map({3 * 2 + 1, {1}, {0}});
  ASSERT_TRUE(walk);
  EXPECT_EQ(walk->offset, 100 + 2 + 4);
}

TEST(AxisMap, WalkThatLeavesTheSourceIsRefused) {
  const AxisMap map({{1, 10, 2}}, 0);
  EXPECT_TRUE(map.map({4, {6}, {1}}));
  EXPECT_FALSE(map.map({5, {6}, {1}}));
}

TEST(AxisMap, AnAxisThatCrossesAxesEvenlyIsTakenApart) {
  // Planes 2 and 3 of a tensor [5, 6], which lies in another with 10 between its planes.
  const AxisMap planes({{1, 12, 1}}, 12);
  const AxisMap whole({{6, 5, 10}, {1, 6, 1}}, 100);
  const auto both = planes.then(whole);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->offset(), 120);
  EXPECT_EQ(both->axes(), (std::vector<MapAxis>{{6, 2, 10}, {1, 6, 1}}));
  EXPECT_FALSE(AxisMap({{1, 12, 1}}, 3).then(whole));  // begins within a plane
  EXPECT_FALSE(AxisMap({{1, 9, 1}}, 6).then(whole));   // ends within one
}

TEST(AxisMap, MapsCompose) {
  const AxisMap transpose({{3, 4, 1}, {1, 3, 4}}, 0);  // [4, 3] seen over [3, 4]
  const AxisMap part({{1, 12, 1}}, 50);
  const auto both = transpose.then(part);
  ASSERT_TRUE(both);
  EXPECT_EQ(both->offset(), 50);
  EXPECT_EQ(both->axes(), transpose.axes());
}

}  // namespace
}  // namespace tessera::compile
