// The DRAM channel: by hand from the times of the device, and against the plain channel.
#include "arch/dram_channel_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "arch/testing/plain_dram.h"

namespace tessera {
namespace {

constexpr std::uint64_t kDdr4Row = 8192;                // with mapping `row`: the next bank group
constexpr std::uint64_t kDdr4SameBank = 16 * kDdr4Row;  // the next row of the bank

// A channel with what it transferred.
class Channel {
 public:
  explicit Channel(const char* device, const DramChannelSettings& settings = {})
      : model_(**find_dram_device(device), settings) {}

  // Steps up to and with `now`, then enters the request.
  void push(DramCycles now, std::uint64_t address, std::int64_t bytes, bool write) {
    run(now);
    model_.push(static_cast<std::uint32_t>(done_.size()), address, bytes, write, now);
    done_.push_back(-1);
  }
  void read(DramCycles now, std::uint64_t address, std::int64_t bytes = 64) {
    push(now, address, bytes, false);
  }
  void write(DramCycles now, std::uint64_t address) { push(now, address, 64, true); }
  void run(DramCycles until) {
    while (model_.next() <= until) {
      if (const auto transfer = model_.step()) {
        DramCycles& done = done_[transfer->request];
        done = std::max(done, transfer->done_at);
      }
    }
  }
  // When each request was done, in the order in which they were entered.
  std::vector<DramCycles> done() {
    run(kDramNever - 1);
    return done_;
  }
  const DramChannelModel& model() const { return model_; }

 private:
  DramChannelModel model_;
  std::vector<DramCycles> done_;
};

using Times = std::vector<DramCycles>;

// Activated in 1, read in 1 + tRCD 16, last data CL 16 + 4 later. The row is open for the second:
// read a cycle after it entered.
TEST(DramChannelModel, AReadOfAnOpenRowTakesOneCycleMoreThanLatencyAndBurst) {
  Channel channel("ddr4-2400");
  channel.read(0, 0);
  channel.read(37, 64);
  EXPECT_EQ(channel.done(), (Times{1 + 16 + 20, 37 + 21}));
  EXPECT_EQ(channel.model().counts().misses, 1);
  EXPECT_EQ(channel.model().counts().hits, 1);
}

// Columns of one bank group are tCCD_L 6 apart, of two groups tCCD_S 4.
TEST(DramChannelModel, BankGroupsHaveTheirOwnColumnDistance) {
  Channel one("ddr4-2400");
  for (std::uint64_t i = 0; i < 3; ++i) one.read(0, 64 * i);
  EXPECT_EQ(one.done(), (Times{37, 43, 49}));
  Channel two("ddr4-2400");
  two.read(0, 0);
  two.read(0, kDdr4Row);  // activated in 5, ready in 21, as tCCD_S says
  EXPECT_EQ(two.done(), (Times{37, 41}));
}

// The first row may be closed in 1 + tRAS 39 (its read, in 17, would allow 26), opened again tRP 16
// later, which is tRC 55 after the first activation.
TEST(DramChannelModel, RowsOfOneBankFollowEachOtherInTheCycleTimeOfARow) {
  Channel channel("ddr4-2400");
  channel.read(0, 0);
  channel.read(0, kDdr4SameBank);
  channel.read(0, 2 * kDdr4SameBank);
  EXPECT_EQ(channel.done(), (Times{37, 37 + 55, 37 + 110}));
  EXPECT_EQ(channel.model().counts().misses, 1);
  EXPECT_EQ(channel.model().counts().conflicts, 2);
}

// Activations in 1, 5, 9, 13, and the fifth tFAW 26 after the first: in 27 (tRRD would allow 17).
TEST(DramChannelModel, AFifthActivationWaitsForTheWindowOfFour) {
  Channel channel("ddr4-2400");
  for (std::uint64_t i = 0; i < 5; ++i) channel.read(0, i * kDdr4Row);
  EXPECT_EQ(channel.done(), (Times{37, 41, 45, 49, 27 + 16 + 20}));
}

// Written in 17, data end CWL 12 + 4 later, in 33. Then tWTR: 9 in the group, 3 in another, whose
// row is open by then.
TEST(DramChannelModel, AReadWaitsForTheDataOfAWrite) {
  Channel same("ddr4-2400");
  same.write(0, 0);
  same.read(17, 64);
  EXPECT_EQ(same.done(), (Times{17, 33 + 9 + 20}));
  Channel other("ddr4-2400");
  other.read(0, kDdr4Row);
  other.write(40, 0);
  other.run(57);  // activated in 41, written in 57: data end in 73
  other.read(57, kDdr4Row + 64);
  EXPECT_EQ(other.done(), (Times{37, 57, 73 + 3 + 20}));
}

// The write opened the row, in 1, when no read waited. Reads go before writes then, but the row is
// not closed before the write has gone, in 17: in 17 + 12 + 4 + tWR 18 = 51 (without the write,
// tRAS would allow 40). Activated in 67, read in 83.
TEST(DramChannelModel, ARowStaysOpenForTheBurstThatOpenedIt) {
  Channel channel("ddr4-2400");
  channel.write(0, 0);
  channel.read(1, kDdr4SameBank);
  EXPECT_EQ(channel.done(), (Times{17, 83 + 20}));
}

// Refresh is due in 9364. Row open: closed then, refreshed tRP 16 later, tRFC 433. Read 9 cycles
// after it began, so it waits: activated in 9364 + 16 + 433, read 16 later.
TEST(DramChannelModel, ARefreshClosesAllBanksAndTakesItsTime) {
  Channel channel("ddr4-2400");
  channel.read(0, 0);
  channel.read(9363, 64);  // issues in 9364: the refresh goes first
  EXPECT_EQ(channel.done(), (Times{37, 9364 + 16 + 433 + 16 + 20}));
  EXPECT_EQ(channel.model().counts().refreshes, 1);
  Channel without("ddr4-2400", {.refresh = false});
  without.read(0, 0);
  without.read(9363, 64);
  EXPECT_EQ(without.done(), (Times{37, 9363 + 21}));
  EXPECT_EQ(without.model().counts().refreshes, 0);
}

TEST(DramChannelModel, RefreshesOfAnIdleChannelAreCountedWithoutSteps) {
  Channel channel("ddr4-2400");
  channel.read(0, 0);
  EXPECT_EQ(channel.done().back(), 37);
  EXPECT_EQ(channel.model().next(), kDramNever);
  // The thousandth refresh began 100 cycles ago and takes 433; all banks are closed.
  const DramCycles due = DramCycles{9364} * 1000;
  channel.read(due + 100, 64);
  EXPECT_EQ(channel.done().back(), due + 433 + 16 + 20);
  EXPECT_EQ(channel.model().counts().refreshes, 1000);
  channel.read(due + 9000, 128);
  EXPECT_EQ(channel.done().back(), due + 9000 + 21);
}

// Pseudo-channels have rows and data buses of their own. Both activations (two cycles of the row bus
// each): in 1 and 3. Reads tRCD 14 later, CL 14 + 2.
TEST(DramChannelModel, PseudoChannelsShareTheCommandBuses) {
  Channel channel("hbm2-2000");
  channel.read(0, 0, 32);
  channel.read(0, 1024, 32);  // the other pseudo-channel
  EXPECT_EQ(channel.done(), (Times{1 + 14 + 16, 3 + 14 + 16}));
}

// The first half of the activation in 1, the second in 2; tRCD 15 counts from the first. In 16 the
// data clock is started, the read is in 17, its data end CL 17 + 2 later. The clock runs until a
// cycle after that, so the second read needs no start; the third does.
TEST(DramChannelModel, AStoppedDataClockTakesACommandMore) {
  Channel channel("lpddr5-6400");
  channel.read(0, 0, 32);
  channel.read(20, 32, 32);
  channel.read(60, 64, 32);
  EXPECT_EQ(channel.done(), (Times{17 + 19, 21 + 19, 62 + 19}));
}

// 64 bursts of one row over four bank groups are one visit: rows opened in 1, 5, 9, 13, the last
// ready in 29, then 63 columns at tCCD_S 4.
TEST(DramChannelModel, ALongRequestTakesTheBusForAllItsBursts) {
  Channel channel("ddr4-2400", {.interleave = DramInterleave::kGroup});
  channel.read(0, 0, 4096);
  channel.read(0, 4096, 4096);
  EXPECT_EQ(channel.done(), (Times{29 + 63 * 4 + 20, 29 + 127 * 4 + 20}));
  EXPECT_EQ(channel.model().counts().misses, 4);
  EXPECT_EQ(channel.model().counts().hits, 124);
  // In one group: 63 columns at tCCD_L 6.
  Channel row("ddr4-2400");
  row.read(0, 0, 4096);
  EXPECT_EQ(row.done(), (Times{17 + 63 * 6 + 20}));
}

TEST(DramChannelModel, QueuesHoldRequestsOf64Bytes) {
  for (const char* device : {"ddr4-2400", "lpddr5-6400"}) {
    DramChannelModel model(**find_dram_device(device), {.queue_requests = 3});
    for (std::uint32_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(model.room(true));
      model.push(i, 64 * i, 64, true, 0);
    }
    EXPECT_FALSE(model.room(true));
    EXPECT_TRUE(model.room(false));
  }
}

// A pitch of the rows of one bank: tRC without the hash, tFAW with it.
TEST(DramChannelModel, AHashKeepsAPitchOffOneBank) {
  const auto time = [](bool hash) {
    Channel channel("ddr4-2400", {.bank_hash = hash});
    for (std::uint64_t i = 0; i < 32; ++i) channel.read(0, i * kDdr4SameBank);
    return std::ranges::max(channel.done());
  };
  EXPECT_EQ(time(false), 37 + 31 * 55);
  EXPECT_LT(4 * time(true), time(false));
}

// Reads keep the queue full. Without a limit the write goes last, with one when so many were read: the data
// of the last of them come beside it.
TEST(DramChannelModel, AWriteWaitsForNoMoreReadsThanTheLimit) {
  for (const std::int32_t limit : {0, 16, 40}) {
    Channel channel("ddr4-2400", {.write_wait_bursts = limit, .refresh = false});
    channel.write(0, 5 * kDdr4Row);
    for (std::uint64_t i = 0; i < 60; ++i) channel.read(0, i * 64);
    Times done = channel.done();
    const DramCycles written = done.front();
    done.erase(done.begin());
    const auto read_before =
        std::ranges::count_if(done, [written](DramCycles at) { return at < written; });
    EXPECT_EQ(read_before, (limit == 0 ? 60 : limit) - 1) << limit;
  }
}

// Random settings and requests, entered into both channels in the same cycles.
struct Lockstep {
  std::mt19937_64 random;
  const DramDevice& device;
  const DramChannelSettings settings;
  DramChannelModel model;
  PlainDram plain;
  const std::uint64_t writes_percent, jumps_percent, rows, gap;
  const std::int64_t outstanding;
  std::uint64_t address = 0;
  std::uint32_t requests = 0;
  std::int64_t in_flight = 0;  // bursts that were not issued

  static DramChannelSettings random_settings(std::mt19937_64& random) {
    const auto low = static_cast<std::int32_t>(random() % 3 == 0 ? 0 : random() % 60);
    return {
        .gang = std::int32_t{1} << (random() % 3),
        .interleave = static_cast<DramInterleave>(random() % 3),
        .bank_hash = random() % 2 == 0,
        .queue_requests = static_cast<std::int32_t>(1 + random() % 64),
        .write_high_percent = low + 1 + static_cast<std::int32_t>(random() % 40),
        .write_low_percent = low,
        .write_wait_bursts = random() % 2 == 0 ? 0 : static_cast<std::int32_t>(1 + random() % 100),
        .refresh = random() % 8 != 0};
  }
  explicit Lockstep(std::uint64_t seed)
      : random(seed),
        device(dram_devices()[random() % dram_devices().size()]),
        settings(random_settings(random)),
        model(device, settings),
        plain(device, settings),
        writes_percent(random() % 3 == 0 ? 0 : random() % 100),
        jumps_percent(1 + random() % 100),
        rows(1 + random() % 5),
        gap(random() % 3 == 0 ? random() % 300 : random() % 20),
        outstanding(static_cast<std::int64_t>(1 + random() % 64)) {}

  void maybe_push(DramCycles now) {
    if (in_flight >= outstanding || random() % (gap + 1) != 0) return;
    const bool write = random() % 100 < writes_percent;
    ASSERT_EQ(plain.room(write), model.room(write));
    if (!plain.room(write)) return;
    const auto burst = static_cast<std::uint64_t>(model.burst_bytes());
    if (random() % 100 < jumps_percent) {
      address = ((random() % rows) << (13 + random() % 8)) + random() % 64 * burst;
    }
    const std::uint64_t bytes = burst * (1 + random() % kDramSingleBursts);
    plain.push(requests, address, static_cast<std::int64_t>(bytes), write);
    in_flight += model.push(requests, address, static_cast<std::int64_t>(bytes), write, now);
    ++requests;
    address += bytes;
  }
};

TEST(DramChannelModel, EqualsThePlainChannelCycleByCycle) {
  std::vector<DramTransfer> plain, model;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE(seed);
    Lockstep both(seed);
    for (DramCycles now = 1; both.requests < 400 || both.in_flight > 0; ++now) {
      ASSERT_LT(now, 1'000'000) << both.in_flight << " bursts do not issue";
      plain.clear();
      model.clear();
      both.plain.tick(plain);
      while (both.model.next() <= now) {
        if (const auto transfer = both.model.step()) model.push_back(*transfer);
      }
      ASSERT_EQ(plain.size(), model.size()) << now;
      for (std::size_t i = 0; i < plain.size(); ++i) {
        ASSERT_EQ(plain[i].request, model[i].request) << now;
        ASSERT_EQ(plain[i].done_at, model[i].done_at) << now;
        ASSERT_EQ(model[i].bursts, 1) << now;
        --both.in_flight;
      }
      if (both.requests < 400) both.maybe_push(now);
    }
    EXPECT_EQ(both.plain.counts().hits, both.model.counts().hits);
    EXPECT_EQ(both.plain.counts().misses, both.model.counts().misses);
    EXPECT_EQ(both.plain.counts().conflicts, both.model.counts().conflicts);
  }
}

// Streams of random requests of 512 to 4,096 bytes, as they come: the time until the last is done.
DramCycles time_of_streams(const DramDevice& device, std::uint64_t seed, std::int32_t single) {
  std::mt19937_64 random(seed);
  DramChannelModel model(device, {.interleave = DramInterleave::kGroup, .single_bursts = single});
  const bool writes = seed % 3 == 0;
  std::vector<std::uint64_t> streams(1 + random() % 3);
  for (std::uint64_t& stream : streams) stream = random() % 1024 << 18;
  DramCycles now = 0;
  DramCycles end = 0;
  for (std::uint32_t i = 0; i < 400; ++i) {
    std::uint64_t& address = streams[random() % streams.size()];
    const std::uint64_t bytes = 512 * (1 + random() % 8);
    const bool write = writes && &address == streams.data();
    while (!model.room(write)) {
      now = model.next();
      if (const auto transfer = model.step()) end = std::max(end, transfer->done_at);
    }
    model.push(i, address, static_cast<std::int64_t>(bytes), write, now);
    address += bytes;
  }
  while (model.next() < kDramNever) {
    if (const auto transfer = model.step()) end = std::max(end, transfer->done_at);
  }
  return end;
}

TEST(DramChannelModel, LongRequestsTakeAboutAsLongAsTheirBursts) {
  for (const DramDevice& device : dram_devices()) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      SCOPED_TRACE(std::string(device.name) + " " + std::to_string(seed));
      const auto visits = static_cast<double>(time_of_streams(device, seed, kDramSingleBursts));
      const auto bursts = static_cast<double>(time_of_streams(device, seed, 1 << 20));
      EXPECT_NEAR(visits / bursts, 1, 0.1);
    }
  }
}

// Requests of many short runs, a pitch apart, as they come: the time until the last is done.
DramCycles time_of_grids(const DramDevice& device, std::uint64_t seed, std::int32_t single) {
  std::mt19937_64 random(seed);
  const auto interleave = static_cast<DramInterleave>(random() % 3);
  DramChannelModel model(device, {.interleave = interleave, .single_bursts = single});
  const bool write = seed % 3 == 0;
  const std::uint64_t run = 32 << random() % 4;
  const std::uint64_t pitch = run + 32 * (random() % 256);
  std::uint64_t address = random() % 1024 << 18;
  DramCycles now = 0;
  DramCycles end = 0;
  const auto step = [&] {
    now = model.next();
    if (const auto transfer = model.step()) end = std::max(end, transfer->done_at);
  };
  for (std::uint32_t i = 0; i < 200; ++i) {
    while (!model.room(write)) step();
    for (std::uint64_t runs = 1 + random() % 32; runs > 0; --runs, address += pitch) {
      model.gather(i, address, static_cast<std::int64_t>(run), write);
    }
    model.enter_gathered(now);
  }
  while (model.next() < kDramNever) step();
  return end;
}

// Bursts of one request in one row go together, which may save rows, or keep a bank group busy.
TEST(DramChannelModel, RequestsOfManyRunsTakeAboutAsLongAsTheirBursts) {
  constexpr std::uint64_t kSeeds = 60;
  for (const DramDevice& device : dram_devices()) {
    double mean = 0;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
      SCOPED_TRACE(std::string(device.name) + " " + std::to_string(seed));
      const auto rows = static_cast<double>(time_of_grids(device, seed, kDramSingleBursts));
      const auto bursts = static_cast<double>(time_of_grids(device, seed, 1 << 20));
      EXPECT_LT(rows / bursts, 1.2);
      EXPECT_GT(rows / bursts, 0.5);
      mean += rows / bursts / static_cast<double>(kSeeds);
    }
    EXPECT_LT(mean, 1.02) << device.name;
    EXPECT_GT(mean, 0.9) << device.name;
  }
}

TEST(DramChannelModel, FewBurstsOfManyRunsAreTakenBurstByBurst) {
  const DramDevice& device = dram_devices()[0];
  DramChannelModel gathered(device, {}), pushed(device, {});
  const std::array<std::uint64_t, 4> addresses = {0, 1 << 20, 64, 3 << 19};
  for (const std::uint64_t address : addresses) {
    EXPECT_EQ(gathered.gather(0, address, 64, false), pushed.push(0, address, 64, false, 0));
  }
  gathered.enter_gathered(0);
  while (pushed.next() < kDramNever) {
    ASSERT_EQ(gathered.next(), pushed.next());
    const auto one = gathered.step();
    const auto other = pushed.step();
    ASSERT_EQ(one.has_value(), other.has_value());
    if (one) {
      EXPECT_EQ(one->done_at, other->done_at);
    }
  }
  EXPECT_EQ(gathered.next(), kDramNever);
}

}  // namespace
}  // namespace tessera
