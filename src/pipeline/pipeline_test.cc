#include "pipeline/pipeline.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <random>
#include <set>
#include <thread>

namespace tessera::pipeline {
namespace {

// A task that adds up: every stage that sees it adds a digit of its own.
class Counted : public Packet {
 public:
  std::uint64_t value = 0;
  void clear() override {
    Packet::clear();
    value = 0;
  }
};

Counted& counted(const PacketPtr& packet) { return static_cast<Counted&>(*packet); }

class Adder : public StageFunction {
 public:
  explicit Adder(std::uint64_t digit) : digit_(digit) {}
  void run(std::span<const PacketPtr> batch) override {
    for (const PacketPtr& packet : batch) {
      counted(packet).value += digit_;
      if (fails_ && packet->header.id % 7 == 3) {
        packet->fail(Failure::kError, {ErrorCode::kInternal, "the seventh"});
      }
    }
  }
  void fail_every_seventh() { fails_ = true; }

 private:
  const std::uint64_t digit_;
  bool fails_ = false;
};

// Holds the thread that runs it until it is opened.
class Gate : public StageFunction {
 public:
  void run(std::span<const PacketPtr> batch) override {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
    seen_ += batch.size();
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void wait_for(int arrivals) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= arrivals; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  std::size_t seen_ = 0;
  bool open_ = false;
};

class Collected : public Sink {
 public:
  struct Outcome {
    std::uint64_t id, value;
    Failure failure;
    int failed_stage;
    std::string message;
  };
  void finished(PacketPtr packet) override {
    const std::lock_guard lock(mutex_);
    outcomes_.push_back({packet->header.id, counted(packet).value, packet->failure,
                         packet->failed_stage, packet->error.message});
  }
  // By id.
  std::vector<Outcome> take() {
    const std::lock_guard lock(mutex_);
    std::sort(outcomes_.begin(), outcomes_.end(),
              [](const Outcome& a, const Outcome& b) { return a.id < b.id; });
    return std::move(outcomes_);
  }

 private:
  std::mutex mutex_;
  std::vector<Outcome> outcomes_;
};

class PipelineTest : public testing::TestWithParam<FlowKind> {
 protected:
  PacketPtr packet(std::uint64_t id) {
    PacketPtr packet = pool_.take();
    packet->header.id = id;
    return packet;
  }
  std::unique_ptr<PacketPipeline> make(std::vector<StageConfig> stages) {
    auto made = PacketPipeline::create(
        {.stages = std::move(stages), .handover = GetParam(), .sink = &sink_});
    EXPECT_TRUE(made.ok()) << made.error().to_string();
    return std::move(made).value();
  }
  // Three stages that add 1, 10 and 100.
  std::vector<StageConfig> three(int threads, std::size_t capacity, std::size_t batch) {
    std::vector<StageConfig> stages;
    std::uint64_t digit = 1;
    for (const char* name : {"pre", "execute", "post"}) {
      stages.push_back({.name = name,
                        .threads = threads,
                        .capacity = capacity,
                        .batch = batch,
                        .function = std::make_shared<Adder>(digit)});
      digit *= 10;
    }
    return stages;
  }

  PacketPool pool_{[] { return std::make_unique<Counted>(); }};
  Collected sink_;
};

INSTANTIATE_TEST_SUITE_P(Handovers, PipelineTest,
                         testing::Values(FlowKind::kFreeFlow, FlowKind::kLockStep),
                         [](const auto& info) {
                           return info.param == FlowKind::kFreeFlow ? "FreeFlow" : "LockStep";
                         });

TEST_P(PipelineTest, EveryPacketPassesEveryStageOnce) {
  for (const int threads : {1, 3}) {
    const auto pipeline = make(three(threads, 2, 2));
    for (std::uint64_t id = 0; id < 200; ++id) pipeline->enter(packet(id));
    pipeline->wait_until_empty();
    const auto outcomes = sink_.take();
    ASSERT_EQ(outcomes.size(), 200U);
    for (std::uint64_t id = 0; id < 200; ++id) {
      EXPECT_EQ(outcomes[id].id, id);
      EXPECT_EQ(outcomes[id].value, 111U);
    }
    EXPECT_EQ(pipeline->counters(1).packets, 200);
    EXPECT_EQ(pipeline->inside(), 0U);
  }
}

TEST_P(PipelineTest, SkippedStagesAreNotRun) {
  const auto pipeline = make(three(2, 4, 1));
  for (std::uint64_t id = 0; id < 64; ++id) {
    PacketPtr one = packet(id);
    one->header.skipped_stages = static_cast<std::uint32_t>(id % 8);
    pipeline->enter(std::move(one));
  }
  pipeline->wait_until_empty();
  for (const auto& outcome : sink_.take()) {
    std::uint64_t expected = 0;
    for (const auto& [bit, digit] : {std::pair{1U, 1U}, {2U, 10U}, {4U, 100U}}) {
      if ((outcome.id % 8 & bit) == 0) expected += digit;
    }
    EXPECT_EQ(outcome.value, expected) << outcome.id;
  }
}

TEST_P(PipelineTest, PacketThatFailedPassesLaterStages) {
  auto stages = three(2, 4, 3);
  auto failing = std::make_shared<Adder>(10);
  failing->fail_every_seventh();
  stages[1].function = failing;
  const auto pipeline = make(std::move(stages));
  for (std::uint64_t id = 0; id < 70; ++id) pipeline->enter(packet(id));
  pipeline->wait_until_empty();
  const auto outcomes = sink_.take();
  ASSERT_EQ(outcomes.size(), 70U);
  for (const auto& outcome : outcomes) {
    const bool failed = outcome.id % 7 == 3;
    EXPECT_EQ(outcome.value, failed ? 11U : 111U);
    EXPECT_EQ(outcome.failure, failed ? Failure::kError : Failure::kNone);
    EXPECT_EQ(outcome.failed_stage, failed ? 1 : 0);
  }
}

TEST_P(PipelineTest, FullStageStopsTheOneBefore) {
  auto gate = std::make_shared<Gate>();
  auto stages = three(1, 2, 1);
  stages[2].function = gate;
  const auto pipeline = make(std::move(stages));
  std::size_t taken = 0;
  // One in each stage and two in front of each; lock step may hold fewer.
  for (PacketPtr next = packet(0); taken < 9;) {
    if (!pipeline->try_enter(next)) {
      if (pipeline->counters(0).queued == 2 && pipeline->counters(2).running == 1) break;
      std::this_thread::yield();
      continue;
    }
    next = packet(++taken);
  }
  EXPECT_LE(taken, 9U);
  EXPECT_EQ(pipeline->inside(), taken);
  gate->open();
  pipeline->wait_until_empty();
  EXPECT_EQ(sink_.take().size(), taken);
}

TEST_P(PipelineTest, CancelledAndLatePacketsNameTheStageTheyDidNotReach) {
  auto gate = std::make_shared<Gate>();
  auto stages = three(1, 8, 1);
  stages[0].function = gate;
  const auto pipeline = make(std::move(stages));
  std::atomic<bool> cancel{false};
  pipeline->enter(packet(0));
  gate->wait_for(1);
  PacketPtr cancelled = packet(1), late = packet(2);
  cancelled->header.ended = &cancel;
  late->header.deadline = now() - 5000;
  pipeline->enter(std::move(cancelled));
  pipeline->enter(std::move(late));
  cancel = true;
  gate->open();
  pipeline->wait_until_empty();
  const auto outcomes = sink_.take();
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[0].failure, Failure::kNone);
  EXPECT_EQ(outcomes[1].failure, Failure::kCancelled);
  EXPECT_EQ(outcomes[1].message, "task 1 was cancelled before stage 'pre'");
  EXPECT_EQ(outcomes[2].failure, Failure::kDeadline);
  EXPECT_EQ(outcomes[2].value, 0U);
}

TEST_P(PipelineTest, ThreadsChangeWhilePacketsFlowAndNoneIsLost) {
  const auto pipeline = make(three(2, 8, 2));
  std::mt19937 random(5);
  for (std::uint64_t id = 0; id < 5000; ++id) {
    pipeline->enter(packet(id));
    if (id % 50 == 0) {
      const auto stage = random() % 3;
      const int threads = 1 + static_cast<int>(random() % 6);
      ASSERT_TRUE(pipeline->set_threads(stage, threads).ok());
      EXPECT_EQ(pipeline->counters(stage).threads, threads);
    }
  }
  pipeline->wait_until_empty();
  std::set<std::uint64_t> ids;
  for (const auto& outcome : sink_.take()) {
    EXPECT_EQ(outcome.value, 111U);
    EXPECT_TRUE(ids.insert(outcome.id).second);
  }
  EXPECT_EQ(ids.size(), 5000U);
}

// However often they change: what a stage is busy is a share of it.
TEST_P(PipelineTest, ThreadTimeIsThreadsTimesTime) {
  const auto pipeline = make(three(2, 8, 2));
  int before = 2, born = 2;
  for (const int threads : {2, 5, 1, 3}) {
    born += std::max(0, threads - before);
    before = threads;
    ASSERT_TRUE(pipeline->set_threads(0, threads).ok());
    const Nanoseconds first_begin = now();
    const Nanoseconds first = pipeline->counters(0).thread_time;
    const Nanoseconds first_end = now();
    for (std::uint64_t id = 0; id < 100; ++id) pipeline->enter(packet(id));
    pipeline->wait_until_empty();
    const Nanoseconds second_begin = now();
    const Nanoseconds passed = pipeline->counters(0).thread_time - first;
    EXPECT_GE(passed, threads * (second_begin - first_end));
    // Those that were to leave, now or in a round before, may have taken their time.
    EXPECT_LE(passed, born * (now() - first_begin));
  }
}

// Also of a batch that is not over, and never more than the threads' time.
TEST_P(PipelineTest, BusyCountsUpToNow) {
  struct Held : StageFunction {
    void run(std::span<const PacketPtr>) override {
      begun.store(true);
      begun.notify_all();
      ended.wait(false);
    }
    std::atomic<bool> begun{false}, ended{false};
  };
  const auto held = std::make_shared<Held>();
  PipelineConfig config{.handover = GetParam(), .sink = &sink_};
  config.stages = {{.name = "held", .threads = 2, .function = held}};
  const auto pipeline = PacketPipeline::create(std::move(config));
  ASSERT_TRUE(pipeline.ok());
  (*pipeline)->enter(packet(1));
  held->begun.wait(false);
  const Nanoseconds begin = now();
  const StageCounters first = (*pipeline)->counters(0);
  while (now() < begin + 2'000'000) std::this_thread::yield();
  const StageCounters second = (*pipeline)->counters(0);
  EXPECT_GE(second.busy - first.busy, 1'000'000);
  EXPECT_LE(second.busy, second.thread_time);
  EXPECT_EQ(second.running, 1);
  held->ended.store(true);
  held->ended.notify_all();
  (*pipeline)->wait_until_empty();
  const Nanoseconds over = (*pipeline)->counters(0).busy;
  EXPECT_GE(over, second.busy) << "nothing is lost when it ends";
  while (now() < begin + 4'000'000) std::this_thread::yield();
  EXPECT_EQ((*pipeline)->counters(0).busy, over) << "and nothing is counted on";
}

TEST_P(PipelineTest, PoolIsNoLargerThanWhatWasInside) {
  const auto pipeline = make(three(1, 4, 2));
  for (std::uint64_t id = 0; id < 2000; ++id) pipeline->enter(packet(id));
  pipeline->wait_until_empty();
  // Twelve in queues, two in each stage's hands, one entering; lock step holds a batch on each
  // side.
  EXPECT_LE(pool_.made(), 26U);
}

// As many as take the grain, by the latest batches: an hour of quick tasks does not make one thread
// take all the slow ones that come then.
TEST(StageTest, ThreadTakesFewerAtOnceWhenTasksBecomeSlow) {
  PacketPool pool{[] { return std::make_unique<Counted>(); }};
  Stage stage(
      {.name = "pre", .batch = 32, .grain = 50'000, .function = std::make_shared<Adder>(1)});
  EXPECT_EQ(stage.batch(), 1U);  // nothing is known yet
  std::vector<PacketPtr> batch;
  for (int i = 0; i < 32; ++i) batch.push_back(pool.take());
  for (int i = 0; i < 10'000; ++i) stage.run(batch, now());
  EXPECT_GT(stage.batch(), 8U);
  for (int i = 0; i < 40; ++i) stage.run(batch, now() - 32 * 1'000'000);
  EXPECT_EQ(stage.batch(), 1U);
}

#if !defined(__SANITIZE_THREAD__) && !defined(TESSERA_SANITIZED)
// Address space for a few more threads' stacks, as long as it lives.
class NoRoomForThreads {
 public:
  NoRoomForThreads() {
    getrlimit(RLIMIT_AS, &before_);
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit little = before_;
    little.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (64 << 20));
    setrlimit(RLIMIT_AS, &little);
  }
  ~NoRoomForThreads() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

TEST_P(PipelineTest, ThreadsThatTheSystemDoesNotHaveAreAnErrorAndTheOthersGoOn) {
  const auto pipeline = make(three(1, 8, 1));
  {
    const NoRoomForThreads little;
    const Status status = pipeline->set_threads(1, 256);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(status.error().message.find("stage 'execute': the system has no thread beyond"),
              std::string::npos)
        << status.error().message;
    EXPECT_EQ(pipeline->counters(1).threads, 1);
    EXPECT_FALSE(
        PacketPipeline::create({.stages = three(256, 8, 1), .handover = GetParam(), .sink = &sink_})
            .ok());
  }
  for (std::uint64_t id = 0; id < 20; ++id) pipeline->enter(packet(id));
  pipeline->wait_until_empty();
  EXPECT_EQ(sink_.take().size(), 20U);
  EXPECT_TRUE(pipeline->set_threads(1, 4).ok());
}
#endif

// Says that its packets are short, and which thread it worked on each by.
class ShortKeeper : public Keeper {
 public:
  void attach(StagePort& port) override { port_ = &port; }
  void work() override {
    while (PacketPtr packet = port_->take(StagePort::End::kFirst)) {
      by[packet->header.id - 1] = std::this_thread::get_id();
      counted(packet).value += 10;
      port_->done(std::move(packet));
    }
  }
  bool is_short() override { return short_now; }
  void sweep() override {}

  std::array<std::thread::id, 4> by;
  bool short_now = true;

 private:
  StagePort* port_ = nullptr;
};

TEST_P(PipelineTest, APacketThatIsAloneAndShortIsWorkedOnWhereItEnters) {
  const bool free_flow = GetParam() == FlowKind::kFreeFlow;
  const auto keeper = std::make_shared<ShortKeeper>();
  const auto gate = std::make_shared<Gate>();
  std::vector<StageConfig> stages;
  stages.push_back({.name = "pre", .function = gate});
  stages.push_back({.name = "execute", .keeper = keeper});
  const auto pipeline = make(std::move(stages));
  const auto enter = [&](std::uint64_t id, bool in_place) {
    PacketPtr entering = packet(id);
    entering->header.skipped_stages = 1;
    pipeline->enter_now(std::move(entering), now(), in_place);
  };
  enter(1, true);
  if (free_flow) {
    EXPECT_EQ(pipeline->inside(), 0U);
  }
  pipeline->wait_until_empty();
  keeper->short_now = false;
  enter(2, true);
  pipeline->wait_until_empty();
  keeper->short_now = true;
  enter(3, false);
  pipeline->wait_until_empty();
  PacketPtr before = packet(9);
  before->header.skipped_stages = 2;  // it is held in the other stage
  pipeline->enter_now(std::move(before));
  gate->wait_for(1);
  enter(4, true);
  gate->open();
  pipeline->wait_until_empty();
  const std::thread::id own = std::this_thread::get_id();
  EXPECT_EQ(keeper->by[0] == own, free_flow);
  for (const std::size_t other : {1U, 2U, 3U}) EXPECT_NE(keeper->by[other], own) << other;
  EXPECT_EQ(sink_.take().size(), 5U);
}

TEST(PipelineConfigTest, WrongNumbersAreNamed) {
  Collected sink;
  const auto message = [&](StageConfig stage) {
    stage.function = std::make_shared<Adder>(1);
    return PacketPipeline::create({.stages = {std::move(stage)}, .sink = &sink}).error().message;
  };
  EXPECT_EQ(message({.name = "pre", .threads = 0}), "stage 'pre': 0 threads; allowed 1 to 256");
  EXPECT_EQ(message({.name = "pre", .capacity = 0}),
            "stage 'pre': 0 waiting packets; allowed 1 to 1048576");
  EXPECT_EQ(message({.name = "pre", .batch = 65}),
            "stage 'pre': 65 packets a batch; allowed 1 to 64");
  EXPECT_EQ(PacketPipeline::create({.sink = &sink}).error().message,
            "a pipeline of 0 stages; allowed 1 to 16");
}

// Stages that take their time in lock step: the slot lasts until the longest is done.
TEST(LockStepTest, NobodyBeginsTheNextSlotBeforeTheLongestStageIsDone) {
  PacketPool pool{[] { return std::make_unique<Counted>(); }};
  Collected sink;
  auto gate = std::make_shared<Gate>();
  auto made =
      PacketPipeline::create({.stages = {{.name = "pre", .function = std::make_shared<Adder>(1)},
                                         {.name = "execute", .function = gate}},
                              .handover = FlowKind::kLockStep,
                              .sink = &sink});
  ASSERT_TRUE(made.ok());
  PacketPipeline& pipeline = **made;
  for (std::uint64_t id = 0; id < 8; ++id) {
    PacketPtr one = pool.take();
    one->header.id = id;
    pipeline.enter(std::move(one));
  }
  gate->wait_for(1);
  // Slot 2: packet 0 is held in "execute" and packet 1 may pass "pre", but no other.
  EXPECT_LE(pipeline.counters(0).packets, 2);
  EXPECT_GE(pipeline.counters(0).queued, 6U);
  gate->open();
  pipeline.wait_until_empty();
  EXPECT_EQ(sink.take().size(), 8U);
}

}  // namespace
}  // namespace tessera::pipeline
