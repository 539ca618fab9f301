// Queues, completions, failure and recovery, on a device that does what a script says.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "device/scripted_device.h"

namespace tessera::device {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

TimePoint soon() { return steady_clock::now() + milliseconds(30); }
// Long enough for a loaded machine; what waits for it should be over much earlier.
TimePoint far() { return steady_clock::now() + std::chrono::seconds(60); }

// A scripted device with a network of one input and one output of 8 bytes.
class Bench {
 public:
  explicit Bench(const ScriptedOptions& options = {}) {
    device_ = make_scripted_device(options).value();
    const std::array<std::int64_t, 1> bytes = {8};
    loaded_ = *device_->load(scripted_network("echo", bytes, bytes));
  }
  Device& operator*() { return *device_; }
  Device* operator->() { return device_.get(); }

  MemoryBlock block() { return *device_->allocate(Bytes{8}); }
  Result<SequenceNumber> submit(const MemoryBlock& input, const MemoryBlock& output, int kernel = 0,
                                std::uint64_t tag = 0, TimePoint deadline = far()) {
    const std::array inputs = {input.base};
    const std::array outputs = {output.base};
    return device_->submit(
        {.loaded = loaded_, .kernel = kernel, .inputs = inputs, .outputs = outputs, .tag = tag},
        deadline);
  }
  void put(const MemoryBlock& block, std::uint64_t value) {
    ASSERT_TRUE(device_->write(block.base, std::as_bytes(std::span(&value, 1))).ok());
  }
  std::uint64_t get(const MemoryBlock& block) {
    std::uint64_t value = 0;
    EXPECT_TRUE(device_->read(block.base, std::as_writable_bytes(std::span(&value, 1))).ok());
    return value;
  }
  LoadedId loaded() const { return loaded_; }

 private:
  std::unique_ptr<Device> device_;
  LoadedId loaded_{};
};

class Recording : public ActivityObserver {
 public:
  void run_began(const Run& run, TimePoint) override {
    const std::lock_guard lock(mutex);
    begun.insert(run.tag);
  }
  void run_ended(const Run& run, const Completion& completion) override {
    const std::lock_guard lock(mutex);
    EXPECT_TRUE(begun.contains(run.tag));
    EXPECT_LE(completion.begin, completion.end);
    ended.insert(run.tag);
  }
  void transferred(const Transfer& transfer) override {
    const std::lock_guard lock(mutex);
    EXPECT_LE(transfer.begin, transfer.end);
    (transfer.to_device ? to_device : to_host) += transfer.bytes.value;
    tags.push_back(transfer.tag);
  }
  void unloaded(LoadedId loaded) override {
    const std::lock_guard lock(mutex);
    gone.push_back(loaded);
  }
  std::mutex mutex;
  std::set<std::uint64_t> begun, ended;
  std::int64_t to_device = 0, to_host = 0;
  std::vector<TransferTag> tags;
  std::vector<LoadedId> gone;
};

// Holds runs back until it is opened.
class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void wait_for(int waiting) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= waiting; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

auto gated(Gate& gate) {
  return [&gate](const ActivityObserver::Run&, std::span<const std::span<std::byte>> inputs,
                 std::span<const std::span<std::byte>> outputs) -> Status {
    gate.pass();
    std::copy(inputs[0].begin(), inputs[0].end(), outputs[0].begin());
    return {};
  };
}

FaultPlan on_tag(std::uint64_t tag, Fault fault) {
  return {[=](const FaultPlace& place) { return place.tag == tag ? fault : Fault::kNone; }, {}};
}

TEST(QueuedDevice, RunTakesItsBytesFromTheInputsAddressToTheOutputs) {
  Bench bench;
  const MemoryBlock input = bench.block(), output = bench.block();
  bench.put(input, 42);
  const SequenceNumber sequence = *bench.submit(input, output, 0, 77);
  const Completion completion = *bench->wait(sequence, far());
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.tag, 77u);
  EXPECT_EQ(completion.sequence, sequence);
  EXPECT_EQ(bench.get(output), 42u);
  const DeviceCounters counters = bench->counters();
  EXPECT_EQ(counters.bytes_to_device, 8);
  EXPECT_EQ(counters.bytes_to_host, 8);
  EXPECT_EQ(counters.completions, 1);
}

TEST(QueuedDevice, TensorsMayLieInsideOneBlock) {
  Bench bench;
  const MemoryBlock block = *bench->allocate(Bytes{32});
  const std::array inputs = {block.base + Bytes{8}};
  const std::array outputs = {block.base + Bytes{24}};
  const std::array<std::uint64_t, 4> values = {1, 2, 3, 4};
  ASSERT_TRUE(bench->write(block.base, std::as_bytes(std::span(values))).ok());
  const auto sequence =
      *bench->submit({.loaded = bench.loaded(), .inputs = inputs, .outputs = outputs});
  ASSERT_TRUE(bench->wait(sequence).ok());
  std::array<std::uint64_t, 4> found{};
  ASSERT_TRUE(bench->read(block.base, std::as_writable_bytes(std::span(found))).ok());
  EXPECT_EQ(found, (std::array<std::uint64_t, 4>{1, 2, 3, 2}));
}

TEST(QueuedDevice, KernelsRunSideBySide) {
  Gate gate;
  Bench bench({.kernels = 2, .compute = gated(gate)});
  const MemoryBlock a = bench.block(), b = bench.block(), c = bench.block(), d = bench.block();
  const auto first = *bench.submit(a, b, 0);
  const auto second = *bench.submit(c, d, 1);
  gate.wait_for(2);  // both have begun, neither has ended
  EXPECT_EQ(bench->queued(0), 1);
  EXPECT_EQ(bench->queued(1), 1);
  gate.open();
  EXPECT_TRUE(bench->wait(second, far()).ok());
  EXPECT_TRUE(bench->wait(first, far()).ok());
}

TEST(QueuedDevice, AnyKernelIsTheOneWithTheShortestQueue) {
  Gate gate;
  Bench bench({.kernels = 2, .compute = gated(gate)});
  const MemoryBlock a = bench.block(), b = bench.block(), c = bench.block(), d = bench.block();
  const auto first = *bench.submit(a, b, 1);
  gate.wait_for(1);
  const auto second = *bench.submit(c, d, kAnyKernel);
  gate.open();
  EXPECT_EQ(bench->wait(first, far())->kernel, 1);
  EXPECT_EQ(bench->wait(second, far())->kernel, 0);
}

TEST(QueuedDevice, FullQueueRefusesAtTheDeadlineAndTakesMoreWhenThereIsRoom) {
  Gate gate;
  Bench bench({.queue_depth = 2, .compute = gated(gate)});
  const MemoryBlock a = bench.block(), b = bench.block();
  std::vector<SequenceNumber> sequences = {*bench.submit(a, b)};
  gate.wait_for(1);
  sequences.push_back(*bench.submit(a, b));
  sequences.push_back(*bench.submit(a, b));
  const auto refused = bench.submit(a, b, 0, 0, steady_clock::now());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().to_string(),
            "device 'scripted', kernel 0: its queue of 2 is full   [unavailable]");
  std::thread opener([&] { gate.open(); });
  sequences.push_back(*bench.submit(a, b, 0, 0, far()));
  opener.join();
  for (const SequenceNumber sequence : sequences) EXPECT_TRUE(bench->wait(sequence, far()).ok());
}

TEST(QueuedDevice, BadSubmissionsAreRefusedWithWhatIsWrong) {
  Bench bench;
  const MemoryBlock block = bench.block();
  const std::array one = {block.base};
  const std::array beyond = {block.base + Bytes{1}};
  const auto message = [&](const Submission& submission) {
    return bench->submit(submission).error().message;
  };
  EXPECT_EQ(message({.loaded = static_cast<LoadedId>(9), .inputs = one, .outputs = one}),
            "device 'scripted': nothing is loaded as 9");
  EXPECT_EQ(message({.loaded = bench.loaded(), .kernel = 1, .inputs = one, .outputs = one}),
            "device 'scripted': kernel 1, it has 1");
  EXPECT_EQ(message({.loaded = bench.loaded(), .inputs = one, .outputs = {}}),
            "device 'scripted': 1 inputs and 0 outputs given, 'echo' has 1 and 1");
  EXPECT_EQ(message({.loaded = bench.loaded(), .inputs = one, .outputs = beyond}),
            "device 'scripted', tensor 'output0': 8 bytes at device address 0x10001 do not lie in "
            "one block that is allocated");
  // Nothing is held after a refusal.
  ASSERT_TRUE(bench->release(block).ok());
  EXPECT_EQ(bench->counters().memory.blocks_quarantined, 0);
}

TEST(QueuedDevice, SequenceNumberCanBeWaitedForOnce) {
  Bench bench;
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto sequence = *bench.submit(a, b);
  ASSERT_TRUE(bench->wait(sequence).ok());
  const auto again = bench->wait(sequence);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().to_string(),
            "device 'scripted': sequence number 1 was not submitted, or was waited for already   "
            "[invalid argument]");
}

TEST(QueuedDevice, ErrorOfARunIsItsOwnAndTheDeviceGoesOn) {
  Bench bench({.faults = on_tag(5, Fault::kError)});
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto bad = *bench.submit(a, b, 0, 5);
  const auto good = *bench.submit(a, b, 0, 6);
  EXPECT_EQ(bench->wait(bad, far())->status.error().to_string(),
            "device 'scripted', kernel 0, task 1 ('echo', tag 5): the fault plan says so   "
            "[unavailable]");
  EXPECT_TRUE(bench->wait(good, far())->status.ok());
  EXPECT_EQ(bench->health().state, HealthState::kOk);
  EXPECT_EQ(bench->counters().run_errors, 1);
}

TEST(QueuedDevice, HangEndsAtTheDeadlineAndKeepsItsBlocksUntilTheReset) {
  Bench bench({.faults = on_tag(5, Fault::kHang)});
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto sequence = *bench.submit(a, b, 0, 5);
  const auto waited = bench->wait(sequence, soon());
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(
      waited.error().message.substr(0, 85),
      "device 'scripted', kernel 0, task 1 ('echo', tag 5): no completion by its deadline, 0");
  ASSERT_TRUE(bench->release(a).ok());
  ASSERT_TRUE(bench->release(b).ok());
  EXPECT_EQ(bench->counters().memory.blocks_quarantined, 2);
  const MemoryBlock c = bench.block();
  EXPECT_EQ(bench->counters().memory.blocks_reused, 0);  // the device may still write there
  ASSERT_TRUE(bench->reset(far()).ok());
  EXPECT_EQ(bench->health().state, HealthState::kProbing);
  const MemoryBlock d = bench.block();
  EXPECT_EQ(bench->counters().memory.blocks_reused, 1);
  bench.put(c, 9);
  EXPECT_TRUE(bench->wait(*bench.submit(c, d), far()).ok());
  EXPECT_EQ(bench.get(d), 9u);
  EXPECT_EQ(bench->health().state, HealthState::kOk);
}

TEST(QueuedDevice, WhatWaitsBehindAHangIsTakenBackAtItsDeadline) {
  Bench bench({.faults = on_tag(5, Fault::kHang)});
  const MemoryBlock a = bench.block(), b = bench.block();
  ASSERT_TRUE(bench.submit(a, b, 0, 5).ok());
  const auto behind = *bench.submit(a, b, 0, 6);
  const auto waited = bench->wait(behind, soon());
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().message,
            "device 'scripted', kernel 0, task 2 ('echo', tag 6): not begun by its deadline, 0 "
            "before it and one running; it was taken back");
  EXPECT_EQ(bench->queued(0), 1);
}

TEST(QueuedDevice, LostCompletionEndsAtTheDeadlineIfNoneFollows) {
  Bench bench({.faults = on_tag(5, Fault::kLostCompletion)});
  const MemoryBlock a = bench.block(), b = bench.block();
  EXPECT_FALSE(bench->wait(*bench.submit(a, b, 0, 5), soon()).ok());
  EXPECT_EQ(bench->counters().given_up, 1);
}

TEST(QueuedDevice, LostCompletionIsNoticedByTheNextOfItsKernel) {
  Bench bench({.kernels = 2, .faults = on_tag(5, Fault::kLostCompletion)});
  const MemoryBlock a = bench.block(), b = bench.block(), c = bench.block();
  const auto lost = *bench.submit(a, b, 0, 5);
  EXPECT_TRUE(bench->wait(*bench.submit(a, c, 1, 6), far()).ok());  // says nothing of kernel 0
  EXPECT_EQ(bench->counters().lost_completions, 0);
  EXPECT_TRUE(bench->wait(*bench.submit(a, c, 0, 7), far()).ok());
  const auto told = bench->wait(lost, far());
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.error().to_string(),
            "device 'scripted', kernel 0, task 1 ('echo', tag 5): its completion was lost; that of "
            "task 3, which the kernel began later, has come   [unavailable]");
  EXPECT_EQ(bench->counters().lost_completions, 1);
  EXPECT_EQ(bench->counters().given_up, 0);
}

// Else a device that loses one in a thousand has no memory left after a while.
TEST(QueuedDevice, BlocksOfLostRunsComeBack) {
  const auto fault = [](const FaultPlace& place) {
    return place.tag % 2 == 0 ? Fault::kLostCompletion : Fault::kNone;
  };
  Bench bench({.memory = Bytes{8 * 256}, .faults = {fault, {}}});
  for (std::uint64_t tag = 0; tag < 100; ++tag) {
    const auto input = bench->allocate(Bytes{8}), output = bench->allocate(Bytes{8});
    ASSERT_TRUE(input.ok() && output.ok()) << "round " << tag;
    const auto sequence = *bench.submit(*input, *output, 0, tag);
    const bool lost = tag % 2 == 0;
    EXPECT_EQ(bench->wait(sequence, lost ? steady_clock::now() + milliseconds(1) : far()).ok(),
              !lost);
    ASSERT_TRUE(bench->release(*input).ok());
    ASSERT_TRUE(bench->release(*output).ok());
  }
}

TEST(QueuedDevice, WhatIsUnloadedGoesWhenItsRunsAreOver) {
  Gate gate;
  Recording recording;
  Bench bench({.compute = gated(gate)});
  bench->set_observer(&recording);
  const std::array<std::int64_t, 1> bytes = {8};
  const auto network = scripted_network("other", bytes, bytes);
  const LoadedId first = *bench->load(network);
  EXPECT_EQ(*bench->load(network), first);
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto submit = [&](LoadedId id) {
    return bench->submit(
        {.loaded = id, .inputs = std::span(&a.base, 1), .outputs = std::span(&b.base, 1)}, far());
  };
  const auto running = submit(first), waiting = submit(first);
  gate.wait_for(1);
  ASSERT_TRUE(bench->unload(first).ok());
  const auto last = submit(first);  // it was loaded twice
  ASSERT_TRUE(bench->unload(first).ok());
  EXPECT_EQ(bench->counters().programs_unloaded, 1);
  EXPECT_EQ(submit(first).error().message, "device 'scripted': nothing is loaded as 1");
  EXPECT_EQ(bench->unload(first).error().message, "device 'scripted': nothing is loaded as 1");
  gate.open();
  EXPECT_TRUE(bench->wait(*running, far()).ok());
  EXPECT_TRUE(bench->wait(*waiting, far()).ok());
  EXPECT_TRUE(recording.gone.empty());
  EXPECT_TRUE(bench->wait(*last, far()).ok());
  EXPECT_EQ(recording.gone, std::vector{first});
  EXPECT_NE(*bench->load(network), first);  // a stale id stays stale
}

TEST(QueuedDevice, WrongCompletionFailsTheDeviceAtOnceAndResetMendsIt) {
  Bench bench({.faults = on_tag(5, Fault::kWrongCompletion)});
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto sequence = *bench.submit(a, b, 0, 5);
  const auto waited = bench->wait(sequence, far());  // long before that
  ASSERT_FALSE(waited.ok());
  EXPECT_EQ(waited.error().to_string(),
            "device 'scripted', kernel 0, task 1 ('echo', tag 5): the device has failed: it "
            "reported the completion of task 1000002, which was never submitted   [unavailable]");
  EXPECT_EQ(bench->health().state, HealthState::kFailed);
  const auto refused = bench.submit(a, b);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(
      refused.error().message,
      "device 'scripted' has failed: it reported the completion of task 1000002, which was never "
      "submitted");
  ASSERT_TRUE(bench->reset(far()).ok());
  EXPECT_TRUE(bench->wait(*bench.submit(a, b), far()).ok());
  EXPECT_EQ(bench->health().state, HealthState::kOk);
  EXPECT_EQ(bench->counters().wrong_completions, 1);
}

TEST(QueuedDevice, CompletionThatIsToldTwiceFailsTheDevice) {
  Bench bench({.faults = on_tag(5, Fault::kSecondCompletion)});
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto sequence = *bench.submit(a, b, 0, 5);
  EXPECT_TRUE(bench->wait(sequence, far()).ok());
  while (bench->health().state != HealthState::kFailed) std::this_thread::yield();
  EXPECT_EQ(bench->health().reason,
            "it reported the completion of task 1, which was complete already");
}

TEST(QueuedDevice, RunBeyondTheLimitFailsTheDeviceForAllWhoWait) {
  Bench bench({.run_limit = milliseconds(20), .faults = on_tag(5, Fault::kHang)});
  const MemoryBlock a = bench.block(), b = bench.block();
  const auto hangs = *bench.submit(a, b, 0, 5);
  const auto behind = *bench.submit(a, b, 0, 6);
  std::thread other([&] { EXPECT_FALSE(bench->wait(behind, far()).ok()); });
  EXPECT_FALSE(bench->wait(hangs, far()).ok());
  other.join();
  EXPECT_EQ(bench->health().state, HealthState::kFailed);
  EXPECT_EQ(bench->health().reason, "kernel 0 has not ended task 1 within the limit of 0.02 s");
}

TEST(QueuedDevice, DeviceThatIsDeadForAWhileComesBack) {
  std::atomic<bool> dead{true};
  FaultPlan faults{[&](const FaultPlace&) { return dead ? Fault::kError : Fault::kNone; },
                   [&] { return !dead.load(); }};
  Bench bench({.faults = faults});
  const MemoryBlock a = bench.block(), b = bench.block();
  EXPECT_FALSE(bench->wait(*bench.submit(a, b), far())->status.ok());
  bench->fail("three errors in a row");
  EXPECT_EQ(bench.submit(a, b).error().message,
            "device 'scripted' has failed: three errors in a row");
  EXPECT_EQ(bench->reset(far()).error().message, "device 'scripted' does not answer a reset");
  dead = false;
  ASSERT_TRUE(bench->reset(far()).ok());
  dead = true;  // not yet after all: the probe fails it again
  EXPECT_FALSE(bench->wait(*bench.submit(a, b), far())->status.ok());
  EXPECT_EQ(bench->health().state, HealthState::kFailed);
  dead = false;
  ASSERT_TRUE(bench->reset(far()).ok());
  EXPECT_TRUE(bench->wait(*bench.submit(a, b), far())->status.ok());
  EXPECT_EQ(bench->health().state, HealthState::kOk);
}

TEST(QueuedDevice, PacedRunsFollowEachOtherWithoutAGapHoweverLateTheThreadWakes) {
  Bench bench({.queue_depth = 8, .run_time = [](const ActivityObserver::Run&) {
                 return std::chrono::microseconds(2000);
               }});
  const MemoryBlock a = bench.block(), b = bench.block();
  std::vector<SequenceNumber> sequences;
  for (int i = 0; i < 8; ++i) sequences.push_back(*bench.submit(a, b));
  TimePoint previous{};
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Completion completion = *bench->wait(sequences[i], far());
    EXPECT_LE(completion.end, steady_clock::now());  // never reported before its time
    if (i > 0) {
      EXPECT_EQ(completion.begin, previous);
    }
    if (!completion.late) {
      EXPECT_EQ(completion.end - completion.begin, std::chrono::microseconds(2000));
    }
    previous = completion.end;
  }
}

TEST(QueuedDevice, RunThatTakesLongerThanItMayIsCountedLate) {
  ScriptedOptions options;
  options.run_time = [](const ActivityObserver::Run&) { return nanoseconds(1); };
  options.compute = [](const ActivityObserver::Run&, std::span<const std::span<std::byte>>,
                       std::span<const std::span<std::byte>>) -> Status {
    std::this_thread::sleep_for(milliseconds(1));
    return {};
  };
  Bench bench(options);
  const MemoryBlock a = bench.block(), b = bench.block();
  EXPECT_TRUE(bench->wait(*bench.submit(a, b), far())->late);
  EXPECT_EQ(bench->counters().late_runs, 1);
}

TEST(QueuedDevice, PacedLinkTakesItsTimeForEachTransfer) {
  ScriptedOptions options;
  options.link_bytes_per_second = 1000;
  Bench bench(options);
  const MemoryBlock a = bench.block();
  const TimePoint begin = steady_clock::now();
  bench.put(a, 1);
  bench.put(a, 2);
  EXPECT_GE(steady_clock::now() - begin, milliseconds(16));
  EXPECT_EQ(bench.get(a), 2u);
}

// Keeps what it is called with.
class Told : public RunListener {
 public:
  void run_over(void* context, End&& end) override {
    const std::lock_guard lock(mutex_);
    ends_.push_back({context, std::move(end)});
    changed_.notify_all();
  }
  std::vector<std::pair<void*, End>> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_.size() >= count; });
    return std::move(ends_);
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return ends_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<void*, End>> ends_;
};

class TellingBench {
 public:
  explicit TellingBench(const ScriptedOptions& options) : bench(options) {}
  SequenceNumber submit(std::uint64_t tag, int priority = 0, bool caller_runs = false) {
    const std::array inputs = {bench.block().base}, outputs = {bench.block().base};
    return *bench->submit({.loaded = bench.loaded(),
                           .kernel = 0,
                           .inputs = inputs,
                           .outputs = outputs,
                           .tag = tag,
                           .priority = priority,
                           .listener = &told,
                           .context = &bench,
                           .caller_runs = caller_runs},
                          far());
  }
  Bench bench;
  Told told;
};

TEST(QueuedDevice, ListenerIsToldInPlaceOfWaiting) {
  TellingBench telling({});
  const SequenceNumber sequence = telling.submit(5);
  const auto ends = telling.told.wait_for(1);
  EXPECT_EQ(ends[0].first, &telling.bench);
  EXPECT_TRUE(ends[0].second.status.ok());
  EXPECT_TRUE(ends[0].second.begun);
  EXPECT_EQ(ends[0].second.completion.tag, 5U);
  EXPECT_FALSE(telling.bench->wait(sequence).ok());
  EXPECT_EQ(telling.bench->withdraw(sequence, true), Withdrawn::kOver);
}

TEST(QueuedDevice, TheCallerRunsWhatWaitsForIt) {
  std::thread::id runner;
  TellingBench telling({.compute = [&](const auto&, auto, auto) -> Status {
                          runner = std::this_thread::get_id();
                          return {};
                        },
                        .paced = false});
  telling.submit(7, 0, true);
  EXPECT_EQ(telling.told.count(), 0U);
  EXPECT_EQ(telling.bench->queued(0), 1);
  telling.bench->run_queued(0);
  const auto ends = telling.told.wait_for(1);
  EXPECT_EQ(runner, std::this_thread::get_id());
  EXPECT_EQ(ends[0].second.completion.tag, 7U);
  EXPECT_EQ(telling.bench->counters().completions, 1);
  telling.bench->run_queued(0);  // nothing waits
  EXPECT_EQ(telling.told.count(), 0U);
}

TEST(QueuedDevice, TheCallerRunsNothingBesideWhatTheKernelRuns) {
  Gate gate;
  std::set<std::thread::id> runners;
  TellingBench telling({.compute = [&](const auto& run, auto, auto) -> Status {
                          if (run.tag == 1) gate.pass();
                          runners.insert(
                              std::this_thread::get_id());  // one run of a kernel at a time
                          return {};
                        },
                        .paced = false});
  telling.submit(1);
  gate.wait_for(1);
  telling.submit(2, 0, true);
  telling.bench->run_queued(0);
  EXPECT_EQ(telling.bench->queued(0), 2);
  gate.open();
  const auto ends = telling.told.wait_for(2);
  EXPECT_EQ(ends[1].second.completion.tag, 2U);
  EXPECT_FALSE(runners.contains(std::this_thread::get_id()));
}

TEST(QueuedDevice, ARunThatMayLastIsTheKernels) {
  std::thread::id runner;
  TellingBench telling({.compute = [&](const auto&, auto, auto) -> Status {
                          runner = std::this_thread::get_id();
                          return {};
                        },
                        .faults = {.fault = [](const auto&) { return Fault::kNone; }}});
  telling.submit(3, 0, true);
  telling.bench->run_queued(0);
  EXPECT_EQ(telling.told.wait_for(1)[0].second.completion.tag, 3U);
  EXPECT_NE(runner, std::this_thread::get_id());
}

TEST(QueuedDevice, WhatIsWithdrawnBeforeItBeganNeverDoesAndOneThatBeganGoesOn) {
  Gate gate;
  TellingBench telling({.compute = gated(gate)});
  const SequenceNumber first = telling.submit(1), second = telling.submit(2);
  const SequenceNumber third = telling.submit(3);
  gate.wait_for(1);
  EXPECT_EQ(telling.bench->withdraw(second, false), Withdrawn::kNotBegun);
  EXPECT_EQ(telling.bench->withdraw(first, false), Withdrawn::kBegun);
  EXPECT_EQ(telling.bench->withdraw(first, true), Withdrawn::kBegun);
  EXPECT_EQ(telling.bench->queued(0), 2);
  gate.open();
  const auto ends = telling.told.wait_for(1);  // of the third alone
  EXPECT_EQ(ends[0].second.completion.sequence, third);
  EXPECT_EQ(telling.told.count(), 0U);
  EXPECT_EQ(telling.bench->counters().withdrawn, 1);
  EXPECT_EQ(telling.bench->counters().late_completions, 1);
}

TEST(QueuedDevice, OfThoseThatWaitTheHighestPriorityBeginsFirst) {
  Gate gate;
  TellingBench telling({.queue_depth = 8, .compute = gated(gate)});
  telling.submit(1);
  gate.wait_for(1);
  for (const auto& [tag, priority] : {std::pair{2, 0}, {3, -1}, {4, 5}, {5, 0}, {6, 5}}) {
    telling.submit(static_cast<std::uint64_t>(tag), priority);
  }
  KernelWork work;
  telling.bench->look_at(0, work);
  EXPECT_TRUE(work.running);
  EXPECT_EQ(work.waiting.size(), 5U);
  gate.open();
  std::vector<std::uint64_t> order;
  while (order.size() < 6) {
    for (const auto& end : telling.told.wait_for(1)) order.push_back(end.second.completion.tag);
  }
  EXPECT_EQ(order, (std::vector<std::uint64_t>{1, 4, 6, 2, 5, 3}));
}

TEST(QueuedDevice, DeviceThatFailsTellsWhichRunsHadNotBegun) {
  Gate gate;
  TellingBench telling({.compute = gated(gate)});
  telling.submit(1);
  gate.wait_for(1);
  telling.submit(2);
  telling.bench->fail("the fan stopped");
  for (const auto& [context, end] : telling.told.wait_for(2)) {
    EXPECT_FALSE(end.status.ok());
    EXPECT_EQ(end.begun, end.status.error().message.find("tag 1") != std::string::npos);
  }
  gate.open();
}

TEST(QueuedDevice, ObserverIsToldOfEveryRunAndTransfer) {
  Recording recording;
  Bench bench;
  bench->set_observer(&recording);
  const MemoryBlock a = bench.block(), b = bench.block();
  for (std::uint64_t tag = 1; tag <= 3; ++tag) {
    bench.put(a, tag);
    ASSERT_TRUE(bench->wait(*bench.submit(a, b, 0, tag), far()).ok());
  }
  bench.get(b);
  bench->set_observer(nullptr);
  const std::lock_guard lock(recording.mutex);
  EXPECT_EQ(recording.ended, (std::set<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(recording.to_device, 24);
  EXPECT_EQ(recording.to_host, 8);
}

TEST(QueuedDevice, TransferSaysWhoseItIs) {
  Recording recording;
  Bench bench({.kernels = 2});
  bench->set_observer(&recording);
  const MemoryBlock block = bench.block();
  std::array<std::byte, 8> bytes{};
  ASSERT_TRUE(bench->write(block.base, bytes).ok());
  ASSERT_TRUE(bench->write(block.base, bytes, {.kernel = 1, .task = 77}).ok());
  ASSERT_TRUE(bench->read(block.base, bytes, {.kernel = 0, .task = 78}).ok());
  EXPECT_EQ(bench->read(block.base, bytes, {.kernel = 2}).error().message,
            "device 'scripted': a transfer of kernel 2, it has 2");
  bench->set_observer(nullptr);
  const std::lock_guard lock(recording.mutex);
  ASSERT_EQ(recording.tags.size(), 3u);
  EXPECT_EQ(recording.tags[0].kernel, kWholeDevice);
  EXPECT_EQ(recording.tags[1].kernel, 1);
  EXPECT_EQ(recording.tags[1].task, 77u);
  EXPECT_EQ(recording.tags[2].kernel, 0);
  EXPECT_EQ(recording.tags[2].task, 78u);
}

// Four threads, three kernels, faults of every kind; a thread that meets a failed device resets it.
// Every run that is said to be good must have the right bytes, and the memory must come back.
TEST(QueuedDevice, ManyThreadsWithFaultsOfEveryKindGetRightResultsOrErrors) {
  ScriptedOptions options;
  options.kernels = 3;
  options.compute = [](const ActivityObserver::Run&, std::span<const std::span<std::byte>> inputs,
                       std::span<const std::span<std::byte>> outputs) -> Status {
    for (std::size_t i = 0; i < 8; ++i) outputs[0][i] = inputs[0][i] ^ std::byte{0x5A};
    return {};
  };
  options.faults.fault = [random = std::mt19937_64(11)](const FaultPlace&) mutable {
    const auto dice = random() % 200;
    return dice < 6 ? static_cast<Fault>(dice) : Fault::kNone;
  };
  Bench bench(options);
  std::atomic<int> good{0}, bad{0};
  const auto client = [&](std::uint64_t id) {
    for (std::uint64_t i = 0; i < 250; ++i) {
      const MemoryBlock input = bench.block(), output = bench.block();
      const std::uint64_t value = id * 1000 + i;
      bench.put(input, value);
      const auto sequence = bench.submit(input, output, kAnyKernel, value, soon());
      bool right = false;
      if (sequence.ok()) {
        const auto completion = bench->wait(*sequence, soon());
        right = completion.ok() && completion->status.ok();
        if (right) {
          EXPECT_EQ(bench.get(output), value ^ 0x5A5A5A5A5A5A5A5Aull);
        }
      }
      ++(right ? good : bad);
      ASSERT_TRUE(bench->release(input).ok());
      ASSERT_TRUE(bench->release(output).ok());
      if (!right) {
        ASSERT_TRUE(bench->reset(far()).ok());
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t id = 0; id < 4; ++id) threads.emplace_back(client, id);
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(bench->reset(far()).ok());
  EXPECT_EQ(good + bad, 1000);
  EXPECT_GT(good, 0);  // how many depends on whose reset takes whose runs along
  EXPECT_GT(bad, 0);
  EXPECT_EQ(bench->counters().memory.used.value, 0);
}

}  // namespace
}  // namespace tessera::device
