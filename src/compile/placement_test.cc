#include "compile/placement.h"

#include <gtest/gtest.h>

#include <random>

namespace tessera::compile {
namespace {

PlacedBlock block(std::int64_t bytes, std::int64_t first, std::int64_t last) {
  return {.name = "b",
          .bytes = bytes,
          .first = first,
          .last = last,
          .wish_first = first,
          .wish_last = last};
}

TEST(Placement, BlocksThatLiveAtDifferentTimesShareBytes) {
  std::vector<PlacedBlock> blocks = {block(100, 0, 1), block(100, 2, 3)};
  ASSERT_FALSE(place_blocks(blocks, {.capacity = 128}));
  EXPECT_EQ(blocks[0].offset, blocks[1].offset);
}

TEST(Placement, WishedTimeKeepsNeighboursApart) {
  std::vector<PlacedBlock> blocks = {block(100, 0, 1), block(100, 2, 3)};
  blocks[1].wish_first = 1;
  ASSERT_FALSE(place_blocks(blocks, {.capacity = 256}));
  EXPECT_NE(blocks[0].offset, blocks[1].offset);
  ASSERT_FALSE(place_blocks(blocks, {.capacity = 128}));  // no room for the wish
  EXPECT_EQ(blocks[0].offset, blocks[1].offset);
}

TEST(Placement, BlocksThatLiveTogetherGoToDifferentBanks) {
  // Two banks of 512 bytes: both lie in the first one unless the banks count.
  std::vector<PlacedBlock> blocks = {block(200, 0, 1), block(100, 1, 2)};
  ASSERT_FALSE(place_blocks(blocks, {.capacity = 1024}));
  EXPECT_EQ(blocks[0].offset, 0);
  EXPECT_EQ(blocks[1].offset, 256);
  const MemoryBounds banks{.capacity = 1024, .bank_bytes = 512};
  ASSERT_FALSE(place_blocks(blocks, banks));
  EXPECT_EQ(blocks[0].offset, 0);
  EXPECT_EQ(blocks[1].offset, 512);
  // Three of them: the last one beside the one that it does not share a task with.
  blocks = {block(300, 0, 4), block(200, 2, 6), block(100, 4, 5)};
  ASSERT_FALSE(place_blocks(blocks, banks));
  EXPECT_EQ(blocks[1].offset, 512);
  EXPECT_EQ(blocks[2].offset, 768);
}

TEST(Placement, BanksTakeNoRoomFromABlock) {
  // With the second one at 512 the third would have bytes [576, 1024), 448: they stay together.
  std::vector<PlacedBlock> blocks = {block(400, 0, 9), block(64, 0, 1), block(500, 1, 1)};
  blocks[0].early = blocks[1].early = true;
  ASSERT_FALSE(place_blocks(blocks, {.capacity = 1024, .bank_bytes = 512}));
  EXPECT_EQ(blocks[1].offset, 448);
  EXPECT_EQ(blocks[2].offset, 512);
}

TEST(Placement, BlockWithoutRoomIsNamed) {
  std::vector<PlacedBlock> blocks = {block(100, 0, 1), block(60, 1, 1)};
  const auto failed = place_blocks(blocks, {.capacity = 128});
  ASSERT_TRUE(failed);
  EXPECT_EQ(*failed, 1u);
}

TEST(Placement, RandomBlocksNeverOverlapWhileAlive) {
  constexpr std::uint64_t kSeed = 20;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    std::vector<PlacedBlock> blocks;
    for (int i = 0; i < 40; ++i) {
      const auto first = static_cast<std::int64_t>(random() % 30);
      PlacedBlock b = block(static_cast<std::int64_t>(1 + random() % 3000), first,
                            first + static_cast<std::int64_t>(random() % 6));
      b.wish_first = std::max<std::int64_t>(0, first - static_cast<std::int64_t>(random() % 2));
      blocks.push_back(b);
    }
    const MemoryBounds bounds{.capacity = 40000};
    ASSERT_FALSE(place_blocks(blocks, bounds));
    EXPECT_EQ(find_overlap(blocks, bounds), "");
  }
}

TEST(Placement, CheckerFindsAnOverlap) {
  std::vector<PlacedBlock> blocks = {block(100, 0, 1), block(100, 1, 2)};
  blocks[0].offset = 0;
  blocks[1].offset = 64;
  EXPECT_EQ(find_overlap(blocks, {.capacity = 1000}), "'b' and 'b' overlap at byte 64");
}

}  // namespace
}  // namespace tessera::compile
