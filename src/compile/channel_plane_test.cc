#include "compile/channel_plane.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera::compile {
namespace {

// The elements that a view walks, in order.
std::vector<std::int64_t> walk(const StorageView& view) {
  std::vector<std::int64_t> all;
  for (std::int64_t c = 0; c < view.channels(); ++c) {
    for (std::int64_t r = 0; r < view.rows(); ++r) {
      for (std::int64_t x = 0; x < view.columns(); ++x) {
        all.push_back(view.offset + c * view.strides[1] + r * view.strides[2] +
                      x * view.strides[3]);
      }
    }
  }
  return all;
}

const StorageView kChannelsOutside{0, 0, {1, 6, 4, 5}, {120, 20, 5, 1}};
const StorageView kChannelsInside{0, 0, {1, 6, 4, 5}, {120, 1, 30, 6}};

TEST(ChannelPlane, RegionsAndViewsAreTheSameElements) {
  for (const StorageView& whole : {kChannelsOutside, kChannelsInside}) {
    const auto plane = ChannelPlane::of(whole, 120);
    ASSERT_TRUE(plane);
    const StorageView part = whole.part(1, 2, 3).part(2, 1, 2);
    const auto region = plane->region(part);
    ASSERT_TRUE(region);
    EXPECT_EQ(*region, (PlaneRegion{{2, 5}, {5, 15}}));
    EXPECT_EQ(walk(plane->view(*region)), walk(part));
    // In one row, where it does not end with rows.
    const StorageView odd = plane->view({{0, 6}, {3, 9}});
    EXPECT_EQ(odd.rows(), 1);
    EXPECT_EQ(plane->region(odd), (PlaneRegion{{0, 6}, {3, 9}}));
  }
}

TEST(ChannelPlane, AnotherShapeOfTheSamePlaneHasTheSameRegions) {
  const auto plane = ChannelPlane::of(kChannelsOutside, 120);
  const StorageView flat{0, 0, {1, 6, 1, 20}, {0, 20, 0, 1}};
  EXPECT_EQ(plane->region(flat.part(3, 5, 10)), (PlaneRegion{{0, 6}, {5, 15}}));
}

// Images outermost, or between rows and channels: whole images, parts of each, and a plane that goes on
// from one image to the next.
TEST(ChannelPlane, SeveralImagesHaveTheSameRegionOfEach) {
  const StorageView outside{0, 0, {2, 3, 4, 5}, {60, 20, 5, 1}};
  const StorageView inside{0, 0, {2, 3, 4, 5}, {60, 1, 15, 3}};
  const StorageView between{0, 0, {2, 3, 4, 5}, {3, 1, 30, 6}};
  for (const StorageView& whole : {outside, inside, between}) {
    const auto plane = ChannelPlane::of(whole, 120);
    ASSERT_TRUE(plane);
    const StorageView part = whole.part(1, 1, 2).part(2, 1, 2);
    EXPECT_EQ(plane->region(part), (PlaneRegion{{1, 3}, {5, 15}, {0, 2}}));
    EXPECT_EQ(plane->region(part.part(0, 1, 1)), (PlaneRegion{{1, 3}, {5, 15}, {1, 2}}));
    EXPECT_EQ(plane->view({{1, 3}, {5, 15}, {0, 2}}), part);
  }
  const auto plane = ChannelPlane::of(inside, 120);
  const StorageView flat{0, 0, {1, 3, 1, 40}, {0, 1, 0, 3}};
  EXPECT_EQ(plane->region(flat), (PlaneRegion{{0, 3}, {0, 20}, {0, 2}}));
  EXPECT_EQ(plane->region(flat.part(3, 22, 8)), (PlaneRegion{{0, 3}, {2, 10}, {1, 2}}));
  EXPECT_FALSE(plane->region(flat.part(3, 18, 4)));  // parts of two images
  EXPECT_FALSE(ChannelPlane::of(outside, 120)->region(flat));
}

TEST(ChannelPlane, WhatIsNoRegionIsNone) {
  const auto plane = ChannelPlane::of(kChannelsOutside, 120);
  EXPECT_FALSE(plane->region(kChannelsOutside.part(3, 1, 2)));  // columns of several rows
  EXPECT_FALSE(plane->region(kChannelsInside));
  StorageView broadcast = kChannelsOutside;
  broadcast.strides[1] = 0;
  EXPECT_FALSE(plane->region(broadcast));
  EXPECT_FALSE(ChannelPlane::of(kChannelsOutside, 240));
  EXPECT_FALSE(ChannelPlane::of(kChannelsOutside.part(2, 1, 2), 120));
}

// Every second column, from the first or the second on, of all rows, or of those of one image.
TEST(ChannelPlane, AroundEverySecondColumnAreTheRowsFromItsFirstToItsLast) {
  for (const StorageView& whole : {kChannelsOutside, kChannelsInside}) {
    const auto plane = ChannelPlane::of(whole, 120);
    const std::int64_t column = whole.strides[3], row = whole.strides[2];
    StorageView odd{0, column, {1, 6, 4, 2}, {0, whole.strides[1], row, 2 * column}};
    EXPECT_FALSE(plane->region(odd));
    EXPECT_EQ(plane->around(odd), (PlaneRegion{{0, 6}, {1, 19}}));
    // Two rows as two images of one row each.
    odd = {0, row + 2 * whole.strides[1], {2, 3, 1, 3}, {row, whole.strides[1], 0, 2 * column}};
    EXPECT_EQ(plane->around(odd), (PlaneRegion{{2, 5}, {5, 15}}));
    // What is a region is that one; what goes beyond the plane, or takes channels in other steps, is none.
    EXPECT_EQ(plane->around(whole), plane->region(whole));
    odd.extents[0] = 4;
    EXPECT_FALSE(plane->around(odd));
    EXPECT_FALSE(plane->around({0, 0, {1, 3, 4, 5}, {0, 2 * whole.strides[1], row, column}}));
  }
  const StorageView images{0, 0, {2, 3, 4, 5}, {60, 20, 5, 1}};
  const auto plane = ChannelPlane::of(images, 120);
  EXPECT_EQ(plane->around({0, 0, {2, 3, 4, 3}, {60, 20, 5, 2}}),
            (PlaneRegion{{0, 3}, {0, 20}, {0, 2}}));
}

TEST(ChannelPlane, RowsOutermostIsAnotherOrderOfTheSameElements) {
  for (const StorageView& whole : {kChannelsOutside, kChannelsInside}) {
    const auto plane = ChannelPlane::of(whole, 120);
    std::set<std::int64_t> places;
    for (std::int64_t row = 0; row < 4; ++row) {
      const auto view = plane->rows_outermost(whole.part(2, row, 1));
      ASSERT_TRUE(view);
      // A row of all channels is one run.
      const auto elements = walk(*view);
      EXPECT_EQ(*std::ranges::min_element(elements), row * 30);
      EXPECT_EQ(*std::ranges::max_element(elements), row * 30 + 29);
      places.insert(elements.begin(), elements.end());
    }
    EXPECT_EQ(places.size(), 120U);
    EXPECT_EQ(walk(*plane->rows_outermost(whole.part(1, 3, 2))),
              (walk({0, 15, {1, 2, 4, 5}, {0, 5, 30, 1}})));
    EXPECT_FALSE(plane->rows_outermost(plane->view({{0, 6}, {3, 9}})));  // parts of two rows
    EXPECT_TRUE(plane->rows_outermost(plane->view({{0, 6}, {1, 3}})));
  }
}

}  // namespace
}  // namespace tessera::compile
