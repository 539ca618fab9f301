// Abandoned runs that still use the memory of their task: blocks of
// the device, and memory of the application's that is read and written in place. What they use
// stays theirs until they are over: it is not released before (the address sanitizer would see
// it), and neither another task nor the host gets at it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "gate.h"
#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using device::Fault;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

const TensorDescription kForm = {"", Format::kU8, {8}};

std::uint64_t number_in(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Memory of the application's that is gone when its last owner has gone.
class Lent {
 public:
  explicit Lent(std::uint64_t value) { std::memcpy(bytes_.get(), &value, sizeof value); }
  std::span<std::byte> bytes() { return {bytes_.get(), 8}; }

 private:
  const std::unique_ptr<std::byte[]> bytes_ = std::make_unique<std::byte[]>(8);
};
TensorView view_of(const std::shared_ptr<Lent>& lent) {
  return {kForm.format, kForm.dims, lent->bytes(), lent};
}

bool comes_true(const std::function<bool()>& what) {
  const auto until = steady_clock::now() + std::chrono::seconds(20);
  while (!what() && steady_clock::now() < until) std::this_thread::yield();
  return what();
}

// What a device's runs read and report; shared with them, as they may be the last.
struct Watch {
  Gate gate;
  std::atomic<Fault> fault{Fault::kNone};  // of the next run
  std::atomic<int> changed{0};             // inputs, under a run
};

// A device whose runs of inputs from kHeld on wait at a gate when they have begun, before they
// look at their inputs again and write their outputs; and a pipeline of an execute stage alone.
class Card {
 public:
  static constexpr std::uint64_t kHeld = 1000;

  explicit Card(bool shared, int kernels = 2) {
    device::ScriptedOptions card = options("card", shared), other = options("other", !shared);
    card.kernels = kernels;
    card.faults.fault = [watch = watch](const device::FaultPlace&) {
      return watch->fault.exchange(Fault::kNone);
    };
    runtime_.emplace(std::vector{card, other});
    StageOptions stage{.kind = StageKind::kExecute, .model = runtime_->model()};
    stage.devices = {"card"};
    pipeline_.emplace(runtime_->open({.stages = {stage}}));
    stream_.emplace(pipeline_->open_stream());
  }

  const std::shared_ptr<Watch> watch = std::make_shared<Watch>();
  Gate& gate = watch->gate;

  Pipeline& pipeline() { return *pipeline_; }
  Memory memory(const std::string& device = "card") { return runtime_->memory(device); }
  device::Device& device() { return runtime_->state().devices()[0]->device(); }
  bool is_idle() { return device().queued(0) == 0 && device().counters().memory.used.value == 0; }

  Job submit(NetworkTask task, SubmitOptions options = {}) {
    return *stream_->submit_network(std::move(task), std::move(options));
  }
  // Its run has begun and is held; its job is over.
  void begin_and_cancel(NetworkTask task) {
    Job job = submit(std::move(task));
    gate.wait_for(1);
    job.cancel();
    EXPECT_EQ(job.wait().error().failure, TaskFailure::kCancelled);
  }
  void let_go() {
    stream_.reset();
    pipeline_.reset();
    runtime_.reset();
  }

 private:
  device::ScriptedOptions options(const std::string& name, bool shared) {
    device::ScriptedOptions options{.name = name, .shared_memory = shared};
    options.compute = [watch = watch](const device::ActivityObserver::Run&,
                                      std::span<const std::span<std::byte>> inputs,
                                      std::span<const std::span<std::byte>> outputs) -> Status {
      const std::uint64_t value = number_in(inputs[0]);
      if (value >= kHeld) watch->gate.pass();
      if (number_in(inputs[0]) != value) ++watch->changed;
      const std::uint64_t result = result_of(value);
      std::memcpy(outputs[0].data(), &result, sizeof result);
      return {};
    };
    return options;
  }

  std::optional<ScriptedRuntime> runtime_;
  std::optional<Pipeline> pipeline_;
  std::optional<Stream> stream_;
};

// Of the device's own memory, and shared with the host.
class InPlace : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Memory, InPlace, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Shared") : std::string("Own");
});

TEST_P(InPlace, WhoWritesTheSameBlockNextWaitsForTheRun) {
  Card card(GetParam());
  Block block = *card.memory().allocate(kForm);
  card.begin_and_cancel({.inputs = {tensor_of(Card::kHeld)}, .outputs = {{.block = block}}});
  Job next = card.submit({.inputs = {tensor_of(1)}, .outputs = {{.block = block}}});
  EXPECT_FALSE(next.wait_for(milliseconds(20)).has_value());
  card.gate.open();
  EXPECT_TRUE(next.wait().ok());
  ASSERT_TRUE(block.fetch().ok());
  EXPECT_EQ(number_in(block.bytes()), result_of(1));
}

TEST_P(InPlace, WhoReadsWhatItWasToWriteFailsAtOnce) {
  Card card(GetParam());
  Block block = *card.memory().allocate(kForm);
  Job reads_already;
  {
    Job job = card.submit({.inputs = {tensor_of(Card::kHeld)}, .outputs = {{.block = block}}});
    reads_already = card.submit({.inputs = {block}});
    card.gate.wait_for(1);
    job.cancel();
  }
  EXPECT_FALSE(reads_already.wait().ok());
  Job reads = card.submit({.inputs = {block}});
  EXPECT_FALSE(reads.wait().ok());
  EXPECT_FALSE(block.fetch().ok());
  card.gate.open();
}

TEST_P(InPlace, TheHostMayWriteWhenTheRunIsOver) {
  Card card(GetParam());
  Block block = *card.memory().upload(tensor_of(Card::kHeld));
  card.begin_and_cancel({.inputs = {block}});
  EXPECT_EQ(block.wrote().error().code, ErrorCode::kUnavailable);
  card.gate.open();
  EXPECT_TRUE(comes_true([&] { return block.wrote().ok(); }));
  const std::uint64_t value = 5;
  std::memcpy(block.bytes().data(), &value, sizeof value);
  ASSERT_TRUE(block.wrote().ok());
  TaskOutcome outcome = card.submit({.inputs = {block}}).wait();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(5));
  EXPECT_EQ(card.watch->changed, 0);
}

TEST_P(InPlace, WhoWritesWhatTheRunReadsWaitsForIt) {
  Card card(GetParam());
  Block block = *card.memory().upload(tensor_of(Card::kHeld));
  card.begin_and_cancel({.inputs = {block}});
  Job next = card.submit({.inputs = {tensor_of(1)}, .outputs = {{.block = block}}});
  EXPECT_FALSE(next.wait_for(milliseconds(20)).has_value());
  card.gate.open();
  EXPECT_TRUE(next.wait().ok());
  EXPECT_EQ(card.watch->changed, 0);
}

TEST_P(InPlace, MemoryOfTheApplicationStaysUntilTheRunIsOver) {
  Card card(GetParam());
  std::weak_ptr<Lent> input, output, wrapped;
  {
    const auto from = std::make_shared<Lent>(Card::kHeld), to = std::make_shared<Lent>(0);
    input = from;
    output = to;
    card.begin_and_cancel({.inputs = {view_of(from)}, .outputs = {{.view = view_of(to)}}});
  }
  EXPECT_EQ(input.expired(), !GetParam());  // where it is the device's own, all has been copied
  {
    const auto lent = std::make_shared<Lent>(Card::kHeld);
    wrapped = lent;
    const Block block = *card.memory().wrap(lent->bytes(), kForm, lent);
    Job job = card.submit({.inputs = {block}});
    card.gate.wait_for(2);
    job.cancel();
  }
  EXPECT_EQ(wrapped.expired(), !GetParam());
  card.gate.open();
  EXPECT_TRUE(comes_true(
      [&] { return input.expired() && output.expired() && wrapped.expired() && card.is_idle(); }));
  EXPECT_EQ(card.watch->changed, 0);
}

TEST_P(InPlace, TensorsOfTheTaskStayUntilTheRunIsOver) {
  Card card(GetParam());
  card.begin_and_cancel({.inputs = {tensor_of(Card::kHeld)}});
  card.gate.open();
  EXPECT_TRUE(comes_true([&] { return card.is_idle(); }));
  EXPECT_EQ(card.watch->changed, 0);
}

TEST_P(InPlace, BlocksOfAnotherDeviceStayUntilTheRunIsOver) {
  Card card(GetParam());
  {
    const Block from = *card.memory("other").upload(tensor_of(Card::kHeld));
    const Block to = *card.memory("other").allocate(kForm);
    card.begin_and_cancel({.inputs = {from}, .outputs = {{.block = to}}});
  }
  card.gate.open();
  EXPECT_TRUE(comes_true([&] { return card.is_idle(); }));
  EXPECT_EQ(card.watch->changed, 0);
}

// The device ends on a thread of its own, when its run is over.
TEST_P(InPlace, EverythingMayBeLetGoWhileTheRunGoesOn) {
  for (const char* const device : {"card", "other"}) {
    Card card(GetParam());
    {
      const Block from = *card.memory(device).upload(tensor_of(Card::kHeld));
      const Block to = *card.memory(device).allocate(kForm);
      card.begin_and_cancel({.inputs = {from}, .outputs = {{.block = to}}});
    }
    std::thread opens([&] {
      std::this_thread::sleep_for(milliseconds(5));
      card.gate.open();
    });
    card.let_go();
    opens.join();
    EXPECT_EQ(card.watch->changed, 0);
  }
}

TEST_P(InPlace, AResetEndsTheRunToo) {
  Card card(GetParam());
  Block block = *card.memory().allocate(kForm);
  card.watch->fault = Fault::kHang;
  SubmitOptions soon;
  soon.deadline = milliseconds(10);
  Job late = card.submit({.inputs = {tensor_of(1)}, .outputs = {{.block = block}}}, soon);
  EXPECT_EQ(late.wait().error().failure, TaskFailure::kDeadline);
  Job next = card.submit({.inputs = {tensor_of(2)}, .outputs = {{.block = block}}});
  EXPECT_FALSE(next.wait_for(milliseconds(20)).has_value());
  ASSERT_TRUE(card.device().reset(device::kNoDeadline).ok());
  EXPECT_TRUE(next.wait().ok());
  ASSERT_TRUE(block.fetch().ok());
  EXPECT_EQ(number_in(block.bytes()), result_of(2));
}

// The device fails, and no listener is left.
TEST_P(InPlace, ADeviceThatFailedMeanwhileIsReset) {
  Card card(GetParam());
  Block block = *card.memory().allocate(kForm);
  card.watch->fault = Fault::kHang;
  SubmitOptions soon;
  soon.deadline = milliseconds(10);
  Job late = card.submit({.inputs = {tensor_of(1)}, .outputs = {{.block = block}}}, soon);
  EXPECT_EQ(late.wait().error().failure, TaskFailure::kDeadline);
  Job next = card.submit({.inputs = {tensor_of(2)}, .outputs = {{.block = block}}});
  card.device().fail("the fan stopped");
  EXPECT_TRUE(next.wait().ok());
}

TEST_P(InPlace, ARunThatHasNotBegunHoldsNothing) {
  Card card(GetParam(), 1);
  Block block = *card.memory().allocate(kForm);
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_TRUE(card.submit({.inputs = {tensor_of(i)}}).wait().ok());
  Job held = card.submit({.inputs = {tensor_of(Card::kHeld)}});
  card.gate.wait_for(1);
  Job waits = card.submit({.inputs = {tensor_of(1)}, .outputs = {{.block = block}}});
  waits.cancel();
  EXPECT_TRUE(comes_true([&] { return block.wrote().ok(); }));
  card.gate.open();
  EXPECT_TRUE(held.wait().ok());
}

}  // namespace
}  // namespace tessera::scripted
