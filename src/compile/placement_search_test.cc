#include "compile/placement_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compile/life_index.h"

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

struct Sizes {
  int count = 8;
  std::int64_t times = 8, life = 4, bytes = 10;
};

std::vector<PlacedBlock> random_blocks(std::mt19937_64& random, const Sizes& sizes) {
  const auto pick = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  std::vector<PlacedBlock> blocks;
  for (int i = 0; i < sizes.count; ++i) {
    const std::int64_t first = pick(sizes.times);
    blocks.push_back(block(1 + pick(sizes.bytes), first, first + pick(sizes.life)));
  }
  return blocks;
}

// Tries every offset of every block from number `next` on.
bool fits_below(std::vector<PlacedBlock>& blocks, std::size_t next, std::int64_t peak) {
  if (next == blocks.size()) return true;
  PlacedBlock& b = blocks[next];
  for (b.offset = 0; b.offset + b.bytes <= peak; ++b.offset) {
    const bool free = std::none_of(
        blocks.begin(), blocks.begin() + static_cast<long>(next), [&](const PlacedBlock& other) {
          return b.first <= other.last && other.first <= b.last &&
                 b.offset < other.offset + other.bytes && other.offset < b.offset + b.bytes;
        });
    if (free && fits_below(blocks, next + 1, peak)) return true;
  }
  return false;
}

std::int64_t brute_force(std::vector<PlacedBlock> blocks) {
  for (std::int64_t peak = 0;; ++peak) {
    if (fits_below(blocks, 0, peak)) return peak;
  }
}

TEST(PlacementSearch, BoundIsTheLargestSumAlive) {
  EXPECT_EQ(placement_bound({block(100, 0, 1), block(60, 1, 2), block(200, 3, 3)}, 1), 200);
  EXPECT_EQ(placement_bound({block(100, 0, 1), block(60, 1, 2), block(100, 3, 3)}, 1), 160);
  EXPECT_EQ(placement_bound({block(1, 0, 1), block(65, 1, 2)}, 64), 64 + 128);
  EXPECT_EQ(placement_bound({}, 64), 0);
}

TEST(PlacementSearch, ExactSearchEqualsBruteForceOnSmallInstances) {
  constexpr std::uint64_t kSeed = 31;
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(::testing::Message() << "seed " << kSeed << ", round " << round);
    std::vector<PlacedBlock> blocks =
        random_blocks(random, {.count = 5 + round % 3, .times = 6, .life = 4, .bytes = 4});
    const TightPlacement tight = place_tightly(blocks, {.alignment = 1});
    ASSERT_EQ(find_overlap(blocks, {.capacity = tight.peak, .alignment = 1}), "");
    EXPECT_TRUE(tight.proved);
    EXPECT_EQ(tight.peak, brute_force(blocks));
  }
}

// At no time do more than 8 units live, and yet no placement does with 8.
TEST(PlacementSearch, GapAboveTheBoundIsProved) {
  std::vector<PlacedBlock> blocks = {block(2, 3, 5), block(4, 6, 6), block(4, 0, 1), block(2, 2, 4),
                                     block(4, 1, 2), block(2, 2, 3), block(3, 4, 6)};
  const TightPlacement tight = place_tightly(blocks, {.alignment = 1});
  EXPECT_EQ(tight.bound, 8);
  EXPECT_EQ(tight.peak, 9);
  EXPECT_EQ(tight.gap(), 1);
  EXPECT_TRUE(tight.proved);
  EXPECT_EQ(brute_force(blocks), 9);
}

TEST(PlacementSearch, ExactSearchGoesBelowTheHeuristics) {
  constexpr std::uint64_t kSeed = 7;
  std::mt19937_64 random(kSeed);
  int better = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<PlacedBlock> blocks = random_blocks(random, {.count = 14, .times = 8, .bytes = 30});
    const TightPlacement heuristic = place_tightly(blocks, {.alignment = 1, .steps_max = 0});
    const TightPlacement exact = place_tightly(blocks, {.alignment = 1, .steps_max = 100'000});
    ASSERT_EQ(find_overlap(blocks, {.capacity = exact.peak, .alignment = 1}), "");
    ASSERT_LE(exact.peak, heuristic.peak);
    if (exact.peak == heuristic.peak) continue;
    EXPECT_EQ(exact.found_by, "exact search");
    EXPECT_GT(exact.steps, 0);
    ++better;
  }
  EXPECT_GT(better, 0);
}

TEST(PlacementSearch, StepsBoundTheSearchAndTheResultStands) {
  std::mt19937_64 random(11);
  std::vector<PlacedBlock> blocks =
      random_blocks(random, {.count = 300, .times = 60, .life = 12, .bytes = 5000});
  const TightPlacement one = place_tightly(blocks, {.steps_max = 50'000});
  EXPECT_EQ(find_overlap(blocks, {.capacity = one.peak}), "");
  EXPECT_GE(one.peak, one.bound);
  EXPECT_LE(one.steps, 50'000 + 10'000);  // a step of the search is taken to its end
  std::vector<PlacedBlock> again = blocks;
  const TightPlacement two = place_tightly(again, {.steps_max = 50'000});
  EXPECT_EQ(one.peak, two.peak);
  for (std::size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i].offset, again[i].offset);
}

TEST(PlacementSearch, TargetEndsTheSearch) {
  std::mt19937_64 random(7);
  std::vector<PlacedBlock> blocks = random_blocks(random, {.count = 40, .times = 20});
  const TightPlacement all = place_tightly(blocks, {.alignment = 1, .steps_max = 0});
  const TightPlacement enough = place_tightly(blocks, {.alignment = 1, .target = all.peak});
  EXPECT_EQ(enough.steps, 0);
}

TEST(PlacementSearch, IndexedCheckerAgreesWithTheQuadraticOne) {
  constexpr std::uint64_t kSeed = 5;
  std::mt19937_64 random(kSeed);
  int wrong = 0;
  for (int round = 0; round < 300; ++round) {
    SCOPED_TRACE(round);
    std::vector<PlacedBlock> blocks =
        random_blocks(random, {.count = 20, .times = 30, .bytes = 1000});
    place_tightly(blocks, {.steps_max = 0});
    if (round % 2 == 0) {
      PlacedBlock& moved = blocks[random() % blocks.size()];
      moved.offset = static_cast<std::int64_t>(random() % 40) * 64;
    }
    const MemoryBounds bounds{.capacity = 5000};
    EXPECT_EQ(find_overlap(blocks, bounds).empty(), find_overlap_indexed(blocks, bounds).empty());
    if (!find_overlap(blocks, bounds).empty()) ++wrong;
  }
  EXPECT_GT(wrong, 20);
}

TEST(LifeIndex, FindsWhatLivesWithinASpan) {
  std::mt19937_64 random(3);
  std::vector<Life> lives;
  for (int i = 0; i < 200; ++i) {
    const auto first = static_cast<std::int64_t>(random() % 1000) - 300;
    lives.push_back({first, first + static_cast<std::int64_t>(random() % 90)});
  }
  LifeIndex index(lives);
  for (std::size_t i = 0; i < lives.size(); i += 2) index.insert(i, lives[i]);
  for (const Life& asked : lives) {
    std::vector<std::size_t> expected;
    for (std::size_t i = 0; i < lives.size(); i += 2) {
      if (lives[i].overlaps(asked)) expected.push_back(i);
    }
    std::vector<std::size_t> found = index.find(asked);
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace tessera::compile
