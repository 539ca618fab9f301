// Where a device's memory is short: runs wait for what any others hold, and all of
// them end.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

#include "device/testing/forwarding_device.h"
#include "gate.h"
#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kBlock = 256;  // of device memory, for one tensor

device::ScriptedOptions card_of(int blocks) {
  device::ScriptedOptions options{.queue_depth = 16, .memory = Bytes{blocks * kBlock}};
  options.run_time = [](const device::ActivityObserver::Run&) {
    return std::chrono::microseconds(30);
  };
  return options;
}

// Runs of the value `which` wait at the gate.
device::ScriptedOptions held_at(Gate& gate, std::uint64_t which, int blocks) {
  device::ScriptedOptions options{.memory = Bytes{blocks * kBlock}};
  options.compute = [&gate, which](const device::ActivityObserver::Run&,
                                   std::span<const std::span<std::byte>> in,
                                   std::span<const std::span<std::byte>> out) -> Status {
    std::uint64_t value = 0;
    std::memcpy(&value, in[0].data(), sizeof value);
    if (value == which) gate.pass();
    value = result_of(value);
    std::memcpy(out[0].data(), &value, sizeof value);
    return {};
  };
  return options;
}

// Which of the stages between two of networks there are.
enum class Between : std::uint8_t { kNothing, kPostAndPre, kOwnStage };

Pipeline two_networks(ScriptedRuntime& runtime, Between between, Handover handover,
                      std::size_t queue = 4) {
  const Model model = runtime.model();
  std::vector<StageOptions> stages = {{.kind = StageKind::kExecute, .name = "one", .model = model}};
  if (between == Between::kOwnStage) {
    stages.push_back({.name = "between", .function = [](Task&) -> Status { return {}; }});
  } else if (between == Between::kPostAndPre) {
    stages.push_back({.kind = StageKind::kPost, .model = model});
    stages.push_back({.kind = StageKind::kPre, .model = model});
  }
  stages.push_back({.kind = StageKind::kExecute, .name = "two", .model = model});
  for (StageOptions& stage : stages) stage.capacity = queue;
  return runtime.open({.stages = std::move(stages), .handover = handover});
}

using Tight = testing::TestWithParam<std::tuple<Between, Handover, int>>;

TEST_P(Tight, TwoNetworksOneBehindTheOtherEndAllTheirTasks) {
  const auto [between, handover, blocks] = GetParam();
  ScriptedRuntime runtime({card_of(blocks)});
  Pipeline pipeline = two_networks(runtime, between, handover);
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  constexpr std::uint64_t kTasks = 150;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    jobs.push_back(*stream.submit_when_room({tensor_of(i)}));
  }
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok()) << i << ": " << outcome.error().error.message;
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(result_of(i)));
  }
}

// A task whose second run finds no room though none runs: tasks behind it hold all there is.
TEST_P(Tight, TasksThatPassTheFirstNetworkByWaitForThoseBehind) {
  const auto [between, handover, blocks] = GetParam();
  ScriptedRuntime runtime({card_of(blocks)});
  Pipeline pipeline = two_networks(runtime, between, handover);
  Stream stream = pipeline.open_stream({.order = StreamOrder::kCompletion});
  std::vector<Job> jobs;
  constexpr std::uint64_t kTasks = 150;
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    SubmitOptions options;
    if (i % 3 == 0) options.skipped_stages = {"one"};
    options.priority = static_cast<int>(i % 5);
    jobs.push_back(*stream.submit_when_room({tensor_of(i)}, options));
  }
  for (std::uint64_t i = 0; i < kTasks; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok()) << i << ": " << outcome.error().error.message;
    const std::uint64_t first = i % 3 == 0 ? i : result_of(i);
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(first));
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, Tight,
                         testing::Combine(testing::Values(Between::kNothing, Between::kPostAndPre,
                                                          Between::kOwnStage),
                                          testing::Values(Handover::kFreeFlow, Handover::kLockStep),
                                          testing::Values(2, 3, 4, 5, 7, 10, 16, 40)));

// What its first runs leave takes the room that its last ones need.
TEST(RuntimeMemory, TaskOfManyRunsWaitsForNothingOfItsOwn) {
  for (const int blocks : {2, 3, 4, 7, 12}) {
    ScriptedRuntime runtime({card_of(blocks)});
    Pipeline pipeline = two_networks(runtime, Between::kNothing, Handover::kFreeFlow);
    std::vector<std::vector<Tensor>> runs;
    for (std::uint64_t i = 0; i < 12; ++i) runs.push_back({tensor_of(i)});
    const TaskOutcome outcome = pipeline.open_stream().submit_runs(std::move(runs))->wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    for (std::uint64_t i = 0; i < 12; ++i) {
      EXPECT_EQ(value_of(outcome.result().runs[i][0]), result_of(result_of(i)));
    }
  }
}

TEST(RuntimeMemory, WhatTheApplicationKeepsIsNoRoomToWaitFor) {
  ScriptedRuntime runtime({card_of(4)});
  Pipeline pipeline = two_networks(runtime, Between::kNothing, Handover::kFreeFlow);
  Stream stream = pipeline.open_stream();
  SubmitOptions first_alone;
  first_alone.skipped_stages = {"two"};
  std::vector<Block> kept;
  for (std::uint64_t i = 0; i < 3; ++i) {
    NetworkTask task{.inputs = {tensor_of(i)}, .outputs = {{.keep = true}}};
    const TaskOutcome outcome = stream.submit_network(std::move(task), first_alone)->wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    if (outcome.result().blocks[0]) kept.push_back(*outcome.result().blocks[0]);
  }
  ASSERT_EQ(kept.size(), 3U);
  const TaskOutcome refused = stream.submit({tensor_of(9)})->wait();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().error.code, ErrorCode::kDoesNotFit);
  kept.clear();
  EXPECT_TRUE(stream.submit({tensor_of(9)})->wait().ok());
}

// What the first network left on its device goes to the second one's, and takes no memory of the
// first meanwhile.
TEST(RuntimeMemory, RunsOnAnotherDeviceHoldNoneOfTheFirst) {
  Gate gate;
  device::ScriptedOptions near = card_of(2), far = held_at(gate, result_of(0), 100);
  near.name = "near";
  far.name = "far";
  ScriptedRuntime runtime({near, far});
  const Model model = runtime.model();
  const auto on = [&](const char* name, const char* device) {
    return StageOptions{
        .kind = StageKind::kExecute, .name = name, .model = model, .devices = {device}};
  };
  Pipeline both = runtime.open({.stages = {on("one", "near"), on("two", "far")}});
  Pipeline other = runtime.open({.stages = {on("one", "near")}});
  Job waits = *both.open_stream().submit({tensor_of(0)});
  gate.wait_for(1);
  EXPECT_TRUE(other.open_stream().submit({tensor_of(1)})->wait().ok());
  gate.open();
  EXPECT_EQ(value_of(waits.wait().result().outputs()[0]), result_of(result_of(0)));
}

// Blocks of another network's tasks are up to twice as large as they need be.
TEST(RuntimeMemory, BlocksThatAreUsedAgainDoNotTakeTheRoomOfOthers) {
  ScriptedRuntime runtime({card_of(4)});
  const auto open = [&](const char* name, const std::vector<std::int64_t>& inputs) {
    const std::array<std::int64_t, 1> output = {2 * kBlock};
    const auto model =
        runtime.state().load(Network(device::scripted_network(name, inputs, output)), {}, false);
    return runtime.open(
        {.stages = {{.kind = StageKind::kExecute, .name = name, .model = Model(model.value())}}});
  };
  Pipeline large = open("large", {2 * kBlock}), small = open("small", {kBlock, kBlock});
  Stream of_large = large.open_stream(), of_small = small.open_stream();
  const auto zeros = [](std::int64_t bytes) { return Tensor::zeros(Format::kU8, {bytes}); };
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(of_large.submit({zeros(2 * kBlock)})->wait().ok());
    const TaskOutcome outcome = of_small.submit({zeros(kBlock), zeros(kBlock)})->wait();
    EXPECT_TRUE(outcome.ok()) << outcome.error().error.message;
  }
}

TEST(RuntimeMemory, RunsThatWereGivenUpGiveTheirsBackInTheEnd) {
  Gate gate;
  ScriptedRuntime runtime({held_at(gate, 1, 2)});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  Job first = *stream.submit({tensor_of(1)});
  gate.wait_for(1);
  Job before = *stream.submit({tensor_of(2)});
  std::this_thread::sleep_for(milliseconds(20));  // it looks for memory
  first.cancel();
  Job after = *stream.submit({tensor_of(3)});
  std::this_thread::sleep_for(milliseconds(100));
  EXPECT_FALSE(before.done());
  gate.open();
  for (Job* const job : {&before, &after}) {
    const TaskOutcome outcome = job->wait();
    EXPECT_TRUE(outcome.ok()) << outcome.error().error.message;
  }
}

// A device that does something when it is asked for memory.
class Hooked : public device::testing::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  Result<device::MemoryBlock> allocate(Bytes bytes) override {
    if (armed.exchange(false)) on_allocate();
    return ForwardingDevice::allocate(bytes);
  }
  std::function<void()> on_allocate;
  std::atomic<bool> armed{false};
};

// It takes its turn while it waits, and must not keep it from others.
TEST(RuntimeMemory, TaskThatIsCancelledWhileItLooksForMemoryLeavesItToOthers) {
  Gate gate, given;
  auto hooked = std::make_unique<Hooked>(device::make_scripted_device(held_at(gate, 1, 2)).value());
  Hooked& hook = *hooked;
  const auto state = runtime::RuntimeState::make(true);
  state->add(DeviceKind::kHost, {}, std::move(hooked));
  constexpr std::array<std::int64_t, 1> kBytes = {8};
  const auto model =
      state->load(Network(device::scripted_network("numbers", kBytes, kBytes)), {}, false).value();
  const auto open = [&] {
    return Pipeline(
        runtime::PipelineState::open(state, {.stages = default_stages(Model(model))}).value());
  };
  Pipeline one = open(), two = open();
  Stream first = one.open_stream(), second = two.open_stream();
  Job running = *second.submit({tensor_of(1)});
  gate.wait_for(1);
  Job cancelled;
  hook.on_allocate = [&] {
    given.pass();
    std::thread([&] { cancelled.cancel(); }).join();  // it holds a lock here
  };
  hook.armed = true;
  cancelled = *first.submit({tensor_of(2)});
  given.open();
  EXPECT_FALSE(cancelled.wait().ok());
  gate.open();
  EXPECT_TRUE(running.wait().ok());
  EXPECT_TRUE(second.submit({tensor_of(3)})->wait().ok());
}

}  // namespace
}  // namespace tessera::scripted
