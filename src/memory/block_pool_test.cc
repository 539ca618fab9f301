#include "memory/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace tessera::memory {
namespace {

TEST(BlockPool, FreedBlockIsTakenBeforeFreshMemory) {
  BlockPool pool(Bytes{1 << 20});
  const auto first = *pool.allocate(Bytes{1000});
  ASSERT_TRUE(first.made);
  ASSERT_TRUE(pool.release(first.block.base).ok());
  EXPECT_EQ(pool.counters().unused.value, 1024);
  const auto second = *pool.allocate(Bytes{900});
  EXPECT_FALSE(second.made);
  EXPECT_EQ(second.place, first.place);
  EXPECT_NE(second.block.base, first.block.base);  // a stale address stays stale
  EXPECT_EQ(pool.counters().blocks_made, 1);
  EXPECT_EQ(pool.counters().blocks_reused, 1);
}

TEST(BlockPool, AThousandRoundsMakeNoMoreBlocksThanTheFirst) {
  BlockPool pool(Bytes{1 << 20});
  for (int round = 0; round < 1000; ++round) {
    std::vector<std::uint64_t> bases;
    for (const int bytes : {4000, 100, 70'000}) {
      bases.push_back(pool.allocate(Bytes{bytes})->block.base);
    }
    for (const std::uint64_t base : bases) ASSERT_TRUE(pool.release(base).ok());
  }
  EXPECT_EQ(pool.counters().blocks_made, 3);
  EXPECT_EQ(pool.counters().blocks_reused, 2997);
}

TEST(BlockPool, BlockReleasedWhileHeldIsNotReusedUntilTheHoldIsDropped) {
  BlockPool pool(Bytes{1 << 20});
  const PoolBlock block = pool.allocate(Bytes{512})->block;
  pool.hold(block.base + 10);
  ASSERT_TRUE(pool.release(block.base).ok());
  EXPECT_EQ(pool.counters().blocks_quarantined, 1);
  EXPECT_FALSE(pool.find(block.base, Bytes{1}).ok());  // gone for its owner
  EXPECT_TRUE(pool.allocate(Bytes{512})->made);
  pool.drop_hold(block.base);
  EXPECT_FALSE(pool.allocate(Bytes{512})->made);
}

TEST(BlockPool, UnusedBlocksAreGivenUpWhenNothingElseFits) {
  BlockPool pool(Bytes{4096});
  const PoolBlock small = pool.allocate(Bytes{1024})->block;
  const PoolBlock other = pool.allocate(Bytes{1024})->block;
  ASSERT_TRUE(pool.release(small.base).ok());
  ASSERT_TRUE(pool.release(other.base).ok());
  EXPECT_TRUE(pool.allocate(Bytes{4096})->made);
  EXPECT_EQ(pool.counters().blocks_dropped, 2);
  std::vector<std::uint64_t> dropped;
  pool.take_dropped(dropped);
  EXPECT_EQ(dropped.size(), 2u);
  const auto none = pool.allocate(Bytes{1});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().to_string(),
            "a block of 1 bytes; 0 of the device's 4096 bytes are free, 4096 are in use; release "
            "blocks or use a device with more memory   [does not fit]");
}

// Else the megabyte of a network that was unloaded is in use as long as the small block is.
TEST(BlockPool, SmallBlockDoesNotTakeALargeUnusedOneWhole) {
  BlockPool pool(Bytes{1 << 20});
  const PoolBlock other = pool.allocate(Bytes{4096})->block;
  const PoolBlock large = pool.allocate(Bytes{(1 << 20) - 4096})->block;
  ASSERT_TRUE(pool.release(large.base).ok());
  const auto small = pool.allocate(Bytes{256});
  ASSERT_TRUE(small.ok());
  EXPECT_EQ(pool.counters().used.value, 4096 + 256);
  ASSERT_TRUE(pool.release(other.base).ok());
  EXPECT_TRUE(pool.allocate(Bytes{(1 << 20) - 4096}).ok());
}

// What cannot be served leaves the unused set as it is.
TEST(BlockPool, RefusedBlockDropsNothing) {
  BlockPool pool(Bytes{4096});
  const PoolBlock kept = pool.allocate(Bytes{1024})->block;
  ASSERT_TRUE(pool.release(pool.allocate(Bytes{2048})->block.base).ok());
  EXPECT_EQ(pool.allocate(Bytes{4096}).error().message,
            "a block of 4096 bytes; 3072 of the device's 4096 bytes are free, 1024 are in use; "
            "release blocks or use a device with more memory");
  EXPECT_EQ(pool.counters().blocks_dropped, 0);
  EXPECT_TRUE(pool.release(kept.base).ok());
}

TEST(BlockPool, AccessThatLeavesItsBlockIsRefused) {
  BlockPool pool(Bytes{1 << 20});
  const PoolBlock block = pool.allocate(Bytes{100})->block;
  EXPECT_TRUE(pool.find(block.base + 40, Bytes{60}).ok());
  EXPECT_EQ(pool.find(block.base + 40, Bytes{60})->offset, 40);
  const auto beyond = pool.find(block.base + 40, Bytes{61});
  ASSERT_FALSE(beyond.ok());
  EXPECT_EQ(beyond.error().message,
            "61 bytes at device address 0x10028 do not lie in one block that is allocated");
  EXPECT_FALSE(pool.find(block.base - 1, Bytes{1}).ok());
  EXPECT_EQ(pool.release(block.base + 1).error().message,
            "no block at device address 0x10001 is allocated");
}

// Against sets that are searched from end to end.
TEST(BlockPool, RandomUseKeepsBlocksApartAndCountersTrue) {
  const std::uint64_t seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  BlockPool pool(Bytes{200'000});
  struct Live {
    std::uint64_t place;
    std::int64_t rounded;
    int holds = 0;
    bool released = false;
  };
  std::map<std::uint64_t, Live> live;  // by base
  for (int step = 0; step < 20'000; ++step) {
    const auto pick = [&] {
      return std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
    };
    const auto action = random() % 4;
    if (action == 0 || live.empty()) {
      const auto got = pool.allocate(Bytes{static_cast<std::int64_t>(random() % 9000)});
      if (!got.ok()) continue;
      for (const auto& [base, other] : live) ASSERT_NE(other.place, got->place);
      ASSERT_TRUE(live.emplace(got->block.base, Live{got->place, got->rounded.value}).second);
      continue;
    }
    const auto it = pick();
    if (action == 1) {
      ASSERT_EQ(pool.release(it->first).ok(), !it->second.released);
      it->second.released = true;
    } else if (action == 2 && !it->second.released) {
      pool.hold(it->first);
      ++it->second.holds;
    } else if (action == 3 && it->second.holds > 0) {
      pool.drop_hold(it->first);
      --it->second.holds;
    }
    if (it->second.released && it->second.holds == 0) live.erase(it);
    std::int64_t used = 0;
    for (const auto& [base, block] : live) used += block.rounded;
    ASSERT_EQ(pool.counters().used.value, used);
    ASSERT_LE(used + pool.counters().unused.value, 200'000);
  }
  EXPECT_GT(pool.counters().blocks_reused, 1000);
}

}  // namespace
}  // namespace tessera::memory
