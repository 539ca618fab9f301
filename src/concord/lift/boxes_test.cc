// Boxes found in small tensors of tags, against the tags that they stand for.
#include "concord/lift/boxes.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::concord {
namespace {

constexpr LiftedValue kA = kFirstValue, kB = kFirstValue + 1;

std::vector<Tag> tags_of(LiftedValue value, const std::vector<std::int64_t>& elements) {
  std::vector<Tag> tags;
  for (const std::int64_t e : elements) {
    tags.push_back(e < 0 ? kUnwritten : make_tag(value, static_cast<std::uint64_t>(e)));
  }
  return tags;
}

// What the boxes write, element by element.
std::vector<Tag> written(const std::vector<SourceBox>& boxes, std::size_t count) {
  std::vector<Tag> tags(count, kUnwritten);
  for (const SourceBox& box : boxes) {
    std::vector<std::int64_t> at(box.extents.size(), 0);
    for (std::int64_t i = 0; i < element_count(box.extents); ++i) {
      std::int64_t from = box.input_offset, to = box.output_offset;
      for (std::size_t a = 0; a < at.size(); ++a) {
        from += at[a] * box.input_strides[a];
        to += at[a] * box.output_strides[a];
      }
      tags[static_cast<std::size_t>(to)] = make_tag(box.value, static_cast<std::uint64_t>(from));
      for (std::size_t a = at.size(); a-- > 0;) {
        if (++at[a] < box.extents[a]) break;
        at[a] = 0;
      }
    }
  }
  return tags;
}

TEST(LiftBoxes, ATranspositionIsOneBox) {
  const auto tags = tags_of(kA, {0, 3, 6, 1, 4, 7, 2, 5, 8});
  const auto boxes = find_boxes({3, 3}, tags, false);
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0].extents, (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(boxes[0].input_strides, (std::vector<std::int64_t>{1, 3}));
  EXPECT_EQ(written(boxes, 9), tags);
}

TEST(LiftBoxes, AConcatenationIsABoxAPart) {
  auto tags = tags_of(kA, {0, 1, -1, -1, -1, 2, 3, -1, -1, -1});
  const auto other = tags_of(kB, {-1, -1, 0, 1, 2, -1, -1, 3, 4, 5});
  for (std::size_t i = 0; i < tags.size(); ++i) tags[i] |= other[i];
  const auto boxes = find_boxes({2, 5}, tags, false);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(written(boxes, 10), tags);
}

TEST(LiftBoxes, AnAxisMayHaveSeveralLevels) {
  // Nearest upsampling by two along both axes.
  const auto tags =
      tags_of(kA, {0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 3, 3, 4, 4, 5, 5});
  const auto boxes = find_boxes({4, 6}, tags, false);
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(written(boxes, 24), tags);
}

TEST(LiftBoxes, WhatNobodyReadsIsRunOverButNotBeyond) {
  const auto tags = tags_of(kA, {0, -1, 2, -1, -1, -1, -1, -1, 8, -1, 10, -1});
  const auto boxes = find_boxes({3, 4}, tags, true);
  ASSERT_EQ(boxes.size(), 1u);
  const auto found = written(boxes, 12);
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (tags[i] == kUnwritten) continue;
    EXPECT_EQ(found[i], tags[i]) << i;
  }
  EXPECT_EQ(found[11], kUnwritten);
}

TEST(LiftBoxes, RandomTagsComeBackAsTheyWere) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Shape dims = {1 + static_cast<std::int64_t>(random() % 4),
                        1 + static_cast<std::int64_t>(random() % 5),
                        1 + static_cast<std::int64_t>(random() % 6)};
    std::vector<std::int64_t> elements;
    for (std::int64_t i = 0; i < element_count(dims); ++i) {
      elements.push_back(static_cast<std::int64_t>(random() % 3) - 1 + i * (round % 2));
    }
    const auto tags = tags_of(kA, elements);
    EXPECT_EQ(written(find_boxes(dims, tags, false), tags.size()), tags) << "round " << round;
  }
}

// The four phases of a transposed convolution: a box each.
TEST(Boxes, WovenValuesAreABoxEach) {
  const Shape dims = {2, 6, 8};
  std::vector<Tag> tags;
  for (std::uint64_t c = 0; c < 2; ++c) {
    for (std::uint64_t y = 0; y < 6; ++y) {
      for (std::uint64_t x = 0; x < 8; ++x) {
        const auto value = static_cast<LiftedValue>(kFirstValue + 2 * (y % 2) + x % 2);
        tags.push_back(make_tag(value, (c * 3 + y / 2) * 4 + x / 2));
      }
    }
  }
  for (const bool over_unread : {false, true}) {
    const auto boxes = find_boxes(dims, tags, over_unread);
    EXPECT_EQ(boxes.size(), 4u);
    EXPECT_EQ(written(boxes, tags.size()), tags);
  }
}

}  // namespace
}  // namespace tessera::concord
