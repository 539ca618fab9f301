// What a device has little of, loses or does wrong for a long time: memory, completions, weights of
// models that are gone. Nothing grows, no task waits for ever, and tasks that can go on do.
#include <gtest/gtest.h>

#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using device::Fault;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::int64_t kPair = 2 * 256;  // of device memory, for the blocks of one run

device::Device& card(ScriptedRuntime& runtime, std::size_t index = 0) {
  return runtime.state().devices()[index]->device();
}

std::vector<std::vector<Tensor>> many_runs(std::uint64_t count) {
  std::vector<std::vector<Tensor>> runs;
  for (std::uint64_t i = 0; i < count; ++i) runs.push_back({tensor_of(i)});
  return runs;
}

TEST(RuntimeLimits, ManyRunsOfOneTaskAreNotAllOnTheDeviceAtOnce) {
  ScriptedRuntime runtime({{.memory = Bytes{100 * kPair}}});
  Pipeline pipeline = runtime.open({});
  TaskOutcome outcome = pipeline.open_stream().submit_runs(many_runs(3000))->wait();
  ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
  ASSERT_EQ(outcome.result().runs.size(), 3000U);
  for (std::uint64_t i = 0; i < 3000; ++i) {
    EXPECT_EQ(value_of(outcome.result().runs[i][0]), result_of(i));
  }
}

TEST(RuntimeLimits, RunsThatFindNoMemoryWaitForThoseOfOthers) {
  device::ScriptedOptions small{.kernels = 2, .memory = Bytes{3 * kPair}};
  small.run_time = [](const device::ActivityObserver::Run&) {
    return std::chrono::microseconds(50);
  };
  ScriptedRuntime runtime({small});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 200; ++i) {
    jobs.push_back(*stream.submit_when_room({tensor_of(i)}));
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    TaskOutcome outcome = jobs[i].wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(i));
  }
}

TEST(RuntimeLimits, RunsWaitForTheMemoryOfThoseThatWereGivenUp) {
  std::atomic<bool> hangs{true};
  device::ScriptedOptions small{.kernels = 2, .memory = Bytes{2 * kPair}};
  small.faults.fault = [&hangs](const device::FaultPlace&) {
    return hangs ? Fault::kHang : Fault::kNone;
  };
  ScriptedRuntime runtime({small});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream({.order = StreamOrder::kCompletion});
  SubmitOptions soon;
  soon.deadline = milliseconds(500);  // long enough to be on the device by then
  Job first = *stream.submit({tensor_of(1)}, soon), second = *stream.submit({tensor_of(2)}, soon);
  EXPECT_EQ(first.wait().error().failure, TaskFailure::kDeadline);
  EXPECT_EQ(second.wait().error().failure, TaskFailure::kDeadline);
  hangs = false;
  Job waits = *stream.submit({tensor_of(3)});
  EXPECT_FALSE(waits.wait_for(milliseconds(20)).has_value());
  ASSERT_TRUE(card(runtime).reset().ok());
  TaskOutcome outcome = waits.wait();
  ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
  EXPECT_EQ(value_of(outcome.result().outputs()[0]), result_of(3));
}

TEST(RuntimeLimits, RunThatNeverFitsIsAnError) {
  ScriptedRuntime runtime({{.memory = Bytes{256}}});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  for (std::uint64_t i = 0; i < 40; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
  for (Job& job : jobs) {
    const TaskOutcome outcome = job.wait();
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().failure, TaskFailure::kError);
    EXPECT_EQ(outcome.error().error.code, ErrorCode::kDoesNotFit);
  }
  EXPECT_EQ(card(runtime).health().state, device::HealthState::kOk);
}

// `pre` checks inputs, and it is not always there.
TEST(RuntimeLimits, InputOfAnotherSizeIsRefusedAtSubmitWhereThePreStageIsSkipped) {
  ScriptedRuntime runtime({device::ScriptedOptions{}});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  SubmitOptions options;
  options.skipped_stages = {"pre"};
  const auto refused = stream.submit({Tensor::zeros(Format::kU8, {16})}, options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "input 'input0': found u8 [16], the model takes u8 [8]");
  EXPECT_TRUE(stream.submit({tensor_of(1)}, options)->wait().ok());
}

TEST(RuntimeLimits, DeviceThatLosesCompletionsKeepsItsMemory) {
  device::ScriptedOptions losing{.memory = Bytes{40 * kPair}};
  losing.faults.fault = [](const device::FaultPlace& place) {
    return static_cast<std::uint64_t>(place.sequence) % 3 == 0 ? Fault::kLostCompletion
                                                               : Fault::kNone;
  };
  ScriptedRuntime runtime({losing});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  int good = 0;
  for (std::uint64_t i = 0; i < 300; ++i) {
    SubmitOptions options;
    options.deadline = milliseconds(2);
    const TaskOutcome outcome = stream.submit_when_room({tensor_of(i)}, options)->wait();
    if (outcome.ok()) {
      ++good;
      continue;
    }
    EXPECT_TRUE(outcome.error().failure == TaskFailure::kDeadline ||
                outcome.error().failure == TaskFailure::kDevice)
        << outcome.error().error.message;
  }
  EXPECT_GT(good, 0);
  pipeline.wait_until_done();
  // What the last lost one holds, and no more.
  EXPECT_LE(card(runtime).counters().memory.used.value, kPair);
}

// Each time it is tried it may take one or two tasks with it, and not all that are about.
TEST(RuntimeLimits, DeviceThatFailsForLongCostsTheOthersLittle) {
  device::ScriptedOptions bad{.name = "bad"}, good{.name = "good"};
  bad.faults.fault = [](const device::FaultPlace&) { return Fault::kError; };
  good.run_time = [](const device::ActivityObserver::Run&) {
    return std::chrono::microseconds(100);
  };
  ScriptedRuntime runtime(std::vector{bad, good});
  Pipeline pipeline = runtime.open({});
  Stream stream = pipeline.open_stream();
  const auto failures_of = [&](std::uint64_t count) {
    int failures = 0;
    std::vector<Job> jobs;
    for (std::uint64_t i = 0; i < count; ++i) {
      jobs.push_back(*stream.submit_when_room({tensor_of(i)}));
    }
    for (Job& job : jobs) failures += job.wait().ok() ? 0 : 1;
    return failures;
  };
  failures_of(300);  // until it has been found out
  const std::int64_t resets = card(runtime).counters().resets;
  const int failures = failures_of(5000);
  EXPECT_LE(failures, 8 + 4 * (card(runtime).counters().resets - resets));
  EXPECT_LT(failures, 200);
}

// The error that made a device suspect was one, and threads that check it get in each other's way.
TEST(RuntimeLimits, SuspectDeviceThatIsInOrderTakesAllTasks) {
  ScriptedRuntime runtime({device::ScriptedOptions{.kernels = 4}});
  PipelineOptions options;
  options.hint = Hint::kLatency;
  Pipeline pipeline = runtime.open(options);
  Stream stream = pipeline.open_stream();
  for (int round = 0; round < 200; ++round) {
    runtime.state().devices()[0]->judge({ErrorCode::kUnavailable, "once"}, pipeline::kNoDeadline);
    std::vector<Job> jobs;
    for (std::uint64_t i = 0; i < 16; ++i) jobs.push_back(*stream.submit({tensor_of(i)}));
    for (Job& job : jobs) {
      const TaskOutcome outcome = job.wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.message;
    }
  }
}

// A program that takes a second each time does not hang because another one takes a millisecond.
TEST(RuntimeLimits, RunHangsByTheMeasureOfItsOwnProgram) {
  metrics::Recorder recorder;
  device::Properties properties;
  properties.name = "card";
  properties.kernels = 2;
  runtime::DeviceObserver observer(recorder, properties);
  const auto now = steady_clock::now();
  const auto run = [&](int kernel, std::uint64_t loaded) {
    return device::ActivityObserver::Run{.kernel = kernel,
                                         .loaded = static_cast<device::LoadedId>(loaded)};
  };
  device::Completion quick;
  quick.begin = now - milliseconds(1);
  quick.end = now;
  observer.run_began(run(0, 0), quick.begin);
  observer.run_ended(run(0, 0), quick);
  observer.run_began(run(1, 1), now - seconds(5));  // another program, for the first time
  EXPECT_FALSE(observer.stuck(now).has_value());
  observer.run_began(run(0, 0), now - seconds(5));
  const auto stuck = observer.stuck(now);
  ASSERT_TRUE(stuck.has_value());
  EXPECT_EQ(stuck->longest_before, milliseconds(1));
  EXPECT_EQ(stuck->lasted, seconds(5));
}

TEST(RuntimeLimits, ModelIsUnloadedWhenItsLastHandleAndPipelineAreGone) {
  ScriptedRuntime runtime({{.name = "a"}, {.name = "b"}});
  constexpr std::array<std::int64_t, 1> kBytes = {8};
  const auto unloaded = [&](std::size_t index) {
    return card(runtime, index).counters().programs_unloaded;
  };
  for (int round = 0; round < 100; ++round) {
    auto model = runtime.state()
                     .load(Network(device::scripted_network("in turn", kBytes, kBytes)), {}, false)
                     .value();
    PipelineOptions options;
    options.stages = default_stages(Model(model));
    std::optional<Pipeline> pipeline(runtime.open(options));
    options = {};
    model.reset();
    Stream stream = pipeline->open_stream();
    pipeline.reset();
    Job job = *stream.submit({tensor_of(7)});
    EXPECT_EQ(unloaded(0), round);
    EXPECT_EQ(value_of(job.wait().result().outputs()[0]), result_of(7));
    stream = runtime.open({}).open_stream();  // the last handle to the round's pipeline
    EXPECT_EQ(unloaded(0), round + 1);
    EXPECT_EQ(unloaded(1), round + 1);
  }
  EXPECT_EQ(card(runtime).counters().programs_loaded, 101);
}

}  // namespace
}  // namespace tessera::scripted
