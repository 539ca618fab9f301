#include "memory/memory_map.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tessera::memory {
namespace {

PoolBlock block(std::uint64_t base, std::int64_t bytes) { return {base, Bytes{bytes}}; }
HostRange host(std::uint64_t address, std::int64_t bytes) { return {address, Bytes{bytes}}; }

TEST(IntervalSet, NeighboursBecomeOneAndHolesCutInTwo) {
  IntervalSet set;
  set.add({10, 20});
  set.add({30, 40});
  set.add({20, 30});
  EXPECT_EQ(set.intervals(), (std::vector<Interval>{{10, 40}}));
  set.remove({15, 16});
  EXPECT_EQ(set.intervals(), (std::vector<Interval>{{10, 15}, {16, 40}}));
  EXPECT_EQ(set.inside({12, 18}), (std::vector<Interval>{{12, 15}, {16, 18}}));
  EXPECT_TRUE(set.inside({40, 50}).empty());
  set.remove({0, 100});
  EXPECT_TRUE(set.empty());
}

TEST(MemoryMap, HostAddressBecomesBaseAndOffsetOfTheBlockThatHoldsIt) {
  MemoryMap map;
  const std::vector<PoolBlock> blocks = {block(9000, 100), block(500, 50), block(7000, 100)};
  ASSERT_TRUE(map.map(host(1000, 250), blocks).ok());
  EXPECT_EQ(map.translate(1000)->address(), 9000u);
  EXPECT_EQ(map.translate(1120)->block.base, 500u);
  EXPECT_EQ(map.translate(1120)->offset.value, 20);
  EXPECT_EQ(map.translate(1249)->address(), 7099u);
  EXPECT_EQ(map.translate(1250).error().message,
            "1 bytes at host address 0x4e2 do not lie in one mapped block");
  EXPECT_FALSE(map.translate(999).ok());
}

TEST(MemoryMap, OnlyWhatIsNewerOnTheOtherSideIsMoved) {
  MemoryMap map;
  const std::vector<PoolBlock> blocks = {block(9000, 100), block(500, 100)};
  ASSERT_TRUE(map.map(host(0, 200), blocks).ok());
  EXPECT_TRUE(map.make_device_current(host(0, 200))->empty());  // nothing was written
  ASSERT_TRUE(map.note_host_write(host(90, 20)).ok());
  const std::vector<Transfer> expected = {{true, 90, 9090, Bytes{10}}, {true, 100, 500, Bytes{10}}};
  EXPECT_EQ(*map.make_device_current(host(0, 200)), expected);
  EXPECT_TRUE(map.make_device_current(host(0, 200))->empty());
  EXPECT_TRUE(map.make_host_current(host(0, 200))->empty());
  ASSERT_TRUE(map.note_device_write(host(0, 50)).ok());
  ASSERT_TRUE(map.note_host_write(host(40, 20)).ok());  // the later one wins its bytes
  EXPECT_EQ(*map.make_host_current(host(0, 200)),
            (std::vector<Transfer>{{false, 0, 9000, Bytes{40}}}));
  EXPECT_EQ(*map.make_device_current(host(45, 5)),
            (std::vector<Transfer>{{true, 45, 9045, Bytes{5}}}));
}

TEST(MemoryMap, TransfersThatFailedAreWantedAgain) {
  MemoryMap map;
  ASSERT_TRUE(map.map(host(0, 100), std::vector{block(9000, 100)}).ok());
  ASSERT_TRUE(map.note_host_write(host(10, 10)).ok());
  const auto transfers = *map.make_device_current(host(0, 100));
  map.put_back(transfers);
  EXPECT_EQ(*map.make_device_current(host(0, 100)), transfers);
}

TEST(MemoryMap, BlocksThatMeetOrDoNotFitAreRefused) {
  MemoryMap map;
  ASSERT_TRUE(map.map(host(1000, 100), std::vector{block(9000, 100)}).ok());
  EXPECT_EQ(map.map(host(1099, 10), std::vector{block(500, 10)}).error().message,
            "host address 0x44b: some of the 10 bytes are mapped already");
  EXPECT_FALSE(map.map(host(995, 10), std::vector{block(500, 10)}).ok());
  EXPECT_EQ(map.map(host(0, 10), std::vector{block(500, 9)}).error().message,
            "a host block of 10 bytes mapped to device blocks of 9");
  EXPECT_EQ(map.unmap(1001).error().message, "no mapped block begins at host address 0x3e9");
  ASSERT_TRUE(map.unmap(1000).ok());
  EXPECT_TRUE(map.map(host(1099, 10), std::vector{block(500, 10)}).ok());
}

// Two memories of real bytes, and for each byte its last writer. What is read on a side that was
// made current must be the last value written by anyone; every byte that is moved must be needed.
class Shadow {
 public:
  static constexpr std::int64_t kBlocks = 5, kBytes = 64;

  explicit Shadow(std::uint64_t seed) : random_(seed) {
    for (std::int64_t b = 0; b < kBlocks; ++b) {
      std::vector<PoolBlock> parts;
      for (std::int64_t left = kBytes; left > 0;) {
        const std::int64_t bytes = std::min<std::int64_t>(left, 1 + below(30));
        next_device_ += static_cast<std::uint64_t>(bytes) + 7;
        parts.push_back(block(100'000 - next_device_, bytes));  // descending: never contiguous
        for (std::int64_t i = 0; i < bytes; ++i) {
          const std::uint64_t at = base(b) + static_cast<std::uint64_t>(kBytes - left + i);
          place_[at] = parts.back().base + static_cast<std::uint64_t>(i);
        }
        left -= bytes;
      }
      EXPECT_TRUE(map_.map(host(base(b), kBytes), parts).ok());
    }
  }

  void step() {
    const std::int64_t first = below(kBytes);
    const HostRange range =
        host(base(below(kBlocks)) + static_cast<std::uint64_t>(first), below(kBytes - first + 1));
    switch (below(4)) {
      case 0:
        ASSERT_TRUE(map_.note_host_write(range).ok());
        for_each(range, [&](std::uint64_t a) { host_[a] = latest_[a] = ++value_; });
        return;
      case 1:
        ASSERT_TRUE(map_.note_device_write(range).ok());
        for_each(range, [&](std::uint64_t a) { device_[place_[a]] = latest_[a] = ++value_; });
        return;
      case 2:
        move(*map_.make_device_current(range));
        for_each(range, [&](std::uint64_t a) { ASSERT_EQ(device_[place_[a]], latest_[a]); });
        return;
      default:
        move(*map_.make_host_current(range));
        for_each(range, [&](std::uint64_t a) { ASSERT_EQ(host_[a], latest_[a]); });
    }
  }

 private:
  static std::uint64_t base(std::int64_t b) { return static_cast<std::uint64_t>(1000 + b * 100); }
  std::int64_t below(std::int64_t n) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(n));
  }
  template <typename Work>
  static void for_each(const HostRange& range, const Work& work) {
    for (std::int64_t i = 0; i < range.bytes.value; ++i) {
      work(range.address + static_cast<std::uint64_t>(i));
    }
  }
  void move(const std::vector<Transfer>& transfers) {
    for (const Transfer& transfer : transfers) {
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(transfer.bytes.value); ++i) {
        int& on_host = host_[transfer.host + i];
        int& on_device = device_[transfer.device + i];
        ASSERT_EQ(place_.at(transfer.host + i), transfer.device + i);
        ASSERT_NE(on_host, on_device) << "moved without need";
        (transfer.to_device ? on_device : on_host) = transfer.to_device ? on_host : on_device;
      }
    }
  }

  std::mt19937_64 random_;
  MemoryMap map_;
  std::uint64_t next_device_ = 0;
  int value_ = 0;
  std::map<std::uint64_t, std::uint64_t> place_;  // host address to device address
  std::map<std::uint64_t, int> host_, device_, latest_;
};

TEST(MemoryMap, RandomUseMovesWhatIsNeededAndNothingElse) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(seed);
    Shadow shadow(seed);
    for (int i = 0; i < 4000; ++i) shadow.step();
  }
}

}  // namespace
}  // namespace tessera::memory
