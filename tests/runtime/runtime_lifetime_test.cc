// Handles, callbacks and threads in awkward orders: lifetimes, permitted waits, and
// what a pipeline holds at most.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "gate.h"
#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Runtime open_runtime() { return Runtime::open().value(); }

StageOptions nothing(const std::string& name) {
  return {.name = name, .function = [](Task&) -> Status { return {}; }};
}

Pipeline open(Runtime& runtime, std::vector<StageOptions> stages, std::size_t jobs_max = 256) {
  PipelineOptions options;
  options.stages = std::move(stages);
  options.jobs_max = jobs_max;
  return runtime.open_pipeline(options).value();
}

// A flag that is waited for.
class Flag {
 public:
  void set() {
    set_ = true;
    set_.notify_all();
  }
  void wait() const { set_.wait(false); }

 private:
  std::atomic<bool> set_{false};
};

// Sets a flag when the last copy of it goes; std::make_shared<Pipeline>(...) with it shows when a
// pipeline is gone, since its stages' functions go with it.
std::shared_ptr<void> when_gone(Flag& flag) {
  return {&flag, [](Flag* gone) { gone->set(); }};
}

TEST(RuntimeLifetime, SubmittingDoesNotWaitWhereTheFirstStageIsSkipped) {
  Gate gate;
  Runtime runtime = open_runtime();
  StageOptions small = gate_stage(gate);
  small.capacity = 1;
  Pipeline pipeline = open(runtime, {nothing("first"), small, nothing("last")});
  Stream stream = pipeline.open_stream();
  SubmitOptions skipping;
  skipping.skipped_stages = {"first"};
  std::vector<Job> jobs;
  for (int i = 0; i < 100; ++i) jobs.push_back(*stream.submit({}, skipping));
  EXPECT_EQ(pipeline.status().in_flight, 100U);
  EXPECT_FALSE(jobs.front().done());
  gate.open();
  for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
}

// Else the results behind a slow task pile up without a bound.
TEST(RuntimeLifetime, JobsThatWaitForTheirTurnAreInFlight) {
  Gate gate;
  std::atomic<int> passed{0};
  Runtime runtime = open_runtime();
  StageOptions stage = nothing("work");
  stage.threads = 2;
  stage.function = [&](Task& task) -> Status {
    if (task.sequence == 0) gate.pass();
    ++passed;
    return {};
  };
  Pipeline pipeline = open(runtime, {stage}, 4);
  Stream stream = pipeline.open_stream();
  std::vector<Job> jobs;
  jobs.push_back(*stream.submit({}));
  gate.wait_for(1);
  for (int i = 1; i < 4; ++i) jobs.push_back(*stream.submit({}));
  while (passed < 3) std::this_thread::yield();
  EXPECT_FALSE(stream.wait_for_room(milliseconds(20)));
  EXPECT_FALSE(stream.submit({}).ok());
  gate.open();
  for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
  EXPECT_TRUE(stream.wait_for_room());
}

TEST(RuntimeLifetime, TimesBeyondTheClockAreForever) {
  Runtime runtime = open_runtime();
  Pipeline pipeline = open(runtime, {nothing("work")});
  Stream stream = pipeline.open_stream();
  for (const nanoseconds forever : {nanoseconds::max(), nanoseconds::max() - nanoseconds(1)}) {
    SubmitOptions options;
    options.deadline = forever;
    Job job = *stream.submit({}, options);
    const auto outcome = job.wait_for(forever);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_TRUE(outcome->ok()) << outcome->error().error.message;
    EXPECT_TRUE(stream.wait_for_room(forever));
  }
  Gate gate;
  Pipeline gated = open(runtime, {gate_stage(gate)}, 1);
  Job job = *gated.open_stream().submit({});
  std::thread opener([&] {
    gate.wait_for(1);
    std::this_thread::sleep_for(milliseconds(5));
    gate.open();
  });
  EXPECT_TRUE(wait_any(std::span(&job, 1), nanoseconds::max() - nanoseconds(1)).has_value());
  opener.join();
}

TEST(RuntimeLifetime, WhateverAStageThrowsEndsItsOwnTask) {
  Runtime runtime = open_runtime();
  StageOptions stage = nothing("work");
  stage.function = [](Task& task) -> Status {
    if (task.sequence == 0) throw 42;
    if (task.sequence == 1) throw std::runtime_error("no more paper");
    return {};
  };
  Pipeline pipeline = open(runtime, {stage});
  Stream stream = pipeline.open_stream();
  Job number = *stream.submit({}), standard = *stream.submit({}), good = *stream.submit({});
  EXPECT_EQ(number.wait().error().error.message,
            "the stage's function threw something that is no std::exception");
  EXPECT_EQ(standard.wait().error().error.message, "the stage's function threw: no more paper");
  EXPECT_TRUE(good.wait().ok());
}

// The payload holds the last handle, and a stage (or the packet's end) releases it.
TEST(RuntimeLifetime, LastHandleMayGoInAStage) {
  for (const bool failing : {false, true}) {
    Flag gone;
    Job job;
    {
      Runtime runtime = open_runtime();
      StageOptions stage = nothing("work");
      stage.function = [failing, alive = when_gone(gone)](Task& task) -> Status {
        if (failing) return Error{ErrorCode::kInvalidArgument, "as told"};
        task.payload.reset();
        return {};
      };
      Gate gate;
      auto pipeline = std::make_shared<Pipeline>(open(runtime, {gate_stage(gate), stage}));
      stage = {};
      SubmitOptions options;
      options.payload = pipeline;
      Stream stream = pipeline->open_stream();
      job = *stream.submit({}, std::move(options));
      // Only the task's payload is left when the gate opens. The gate goes last.
      std::thread opener(
          [&gate, stream = std::move(stream), pipeline = std::move(pipeline)]() mutable {
            gate.wait_for(1);
            {
              const Stream last = std::move(stream);
            }
            pipeline.reset();
            gate.open();
          });
      opener.join();
      EXPECT_EQ(job.wait().ok(), !failing);
      gone.wait();
    }
  }
}

TEST(RuntimeLifetime, CallbackThatCancelsAnotherStreamMayDropTheLastHandle) {
  Flag gone;
  Job other;
  {
    Gate gate;
    Runtime runtime = open_runtime();
    StageOptions stage = nothing("work");
    stage.function = [alive = when_gone(gone)](Task&) -> Status { return {}; };
    auto pipeline = std::make_shared<Pipeline>(open(runtime, {gate_stage(gate), stage}));
    stage = {};
    Stream first = pipeline->open_stream(), second = pipeline->open_stream();
    SubmitOptions inner;
    inner.callback = [](TaskOutcome) {};
    SubmitOptions outer;
    outer.callback = [&other, pipeline](TaskOutcome) mutable {
      other.cancel();  // calls the other's callback, on this thread
      pipeline.reset();
    };
    Job job = *first.submit({}, std::move(outer));
    other = *second.submit({}, std::move(inner));
    std::thread opener([&gate, first = std::move(first), second = std::move(second),
                        pipeline = std::move(pipeline)]() mutable {
      gate.wait_for(1);
      {
        const Stream a = std::move(first), b = std::move(second);
        pipeline.reset();
      }
      gate.open();
    });
    opener.join();
    gone.wait();
  }
}

TEST(RuntimeLifetime, CallbackThatWouldWaitForItselfIsRefused) {
  Runtime runtime = open_runtime();
  Pipeline pipeline = open(runtime, {nothing("work")}, 2);
  Stream stream = pipeline.open_stream();
  Gate gate;
  Flag over;
  std::string message;
  bool room = true;
  SubmitOptions options;
  options.callback = [&](TaskOutcome) {
    gate.pass();
    const auto refused = stream.submit_when_room({});
    if (!refused.ok()) message = refused.error().message;
    room = stream.wait_for_room();
    over.set();
  };
  ASSERT_TRUE(stream.submit({}, options).ok());
  gate.wait_for(1);
  Job second = *stream.submit({}), third = *stream.submit({});
  gate.open();
  over.wait();
  EXPECT_FALSE(room);
  EXPECT_EQ(message,
            "2 jobs are in flight, which is the most this pipeline holds, and a thread of the "
            "pipeline cannot wait for room: it would wait for itself; use submit()");
  EXPECT_TRUE(second.wait().ok());
  EXPECT_TRUE(third.wait().ok());
}

TEST(RuntimeLifetime, TuningMayBeSwitchedOffByItsOwnLog) {
  Runtime runtime = open_runtime();
  StageOptions slow = nothing("slow");
  slow.function = [](Task&) -> Status {
    std::this_thread::sleep_for(milliseconds(2));
    return {};
  };
  slow.batch = 1;
  PipelineOptions options;
  options.stages = {slow};
  options.tune = true;
  std::optional<Pipeline> pipeline;
  std::mutex mutex;  // around `pipeline`
  Flag told;
  options.tuning_log = [&](const std::string&) {
    const std::lock_guard lock(mutex);
    pipeline->set_tuning(false);
    told.set();
  };
  {
    const std::lock_guard lock(mutex);
    pipeline.emplace(runtime.open_pipeline(options).value());
  }
  std::atomic<bool> stop{false};
  std::thread source([&, stream = pipeline->open_stream()]() mutable {
    while (!stop) (void)stream.submit_when_room({});
    stream.wait_until_done();
  });
  told.wait();
  EXPECT_FALSE(pipeline->status().tuning);
  pipeline->set_tuning(true);
  EXPECT_TRUE(pipeline->status().tuning);
  stop = true;
  source.join();
}

TEST(RuntimeLifetime, FiguresAreThoseOfTheOutcomesHoweverCancelsAndDeadlinesRace) {
  Runtime runtime = open_runtime();
  StageOptions work = nothing("work");
  work.threads = 2;
  Pipeline pipeline = open(runtime, {work, nothing("last")}, 16);
  Stream stream = pipeline.open_stream();
  std::int64_t succeeded = 0, cancelled = 0, late = 0;
  std::mt19937 random(3);
  for (int i = 0; i < 4000; ++i) {
    SubmitOptions options;
    if (random() % 2 == 0) options.deadline = nanoseconds(random() % 40'000);
    Job job = stream.submit_when_room({}, std::move(options)).value();
    if (random() % 2 == 0) job.cancel();
    const TaskOutcome outcome = job.wait();
    if (outcome.ok()) {
      ++succeeded;
    } else {
      ++(outcome.error().failure == TaskFailure::kCancelled ? cancelled : late);
    }
  }
  pipeline.wait_until_done();
  const PipelineStatus status = pipeline.status();
  EXPECT_EQ(status.succeeded, succeeded);
  EXPECT_EQ(status.cancelled, cancelled);
  EXPECT_EQ(status.late, late);
  EXPECT_EQ(status.failed, 0);
  EXPECT_EQ(status.in_flight, 0U);
}

// The callbacks of a stream that a cancel set going are called by the thread that cancels.
TEST(RuntimeLifetime, WaitingUntilAllIsDoneWaitsForCallbacksToo) {
  Gate stage, callback;
  Runtime runtime = open_runtime();
  Pipeline pipeline = open(runtime, {gate_stage(stage)});
  Stream stream = pipeline.open_stream();
  std::atomic<int> called{0};
  SubmitOptions first, second;
  first.callback = [&](TaskOutcome) {
    callback.pass();
    ++called;
  };
  second.callback = [&](TaskOutcome) { ++called; };
  Job head = *stream.submit({}, std::move(first)), behind = *stream.submit({}, std::move(second));
  stage.wait_for(1);
  std::thread canceller([&] { head.cancel(); });
  callback.wait_for(1);
  stage.open();  // both packets leave; the second job waits for the first one's callback
  std::thread opener([&] {
    std::this_thread::sleep_for(milliseconds(20));
    callback.open();
  });
  pipeline.wait_until_done();
  EXPECT_EQ(called, 2);
  canceller.join();
  opener.join();
}

TEST(RuntimeLifetime, PoolOfJobsIsNoLargerThanWhatCanBeInFlightWhenTheApplicationHasLetGo) {
  const auto pool = runtime::JobPool::make(8);
  std::vector<runtime::JobReference> held;
  for (int i = 0; i < 1000; ++i) held.push_back(pool->take());
  EXPECT_EQ(pool->made(), 1000U);
  held.clear();
  EXPECT_EQ(pool->made(), 8U);
  for (int i = 0; i < 8; ++i) held.push_back(pool->take());
  EXPECT_EQ(pool->made(), 8U);
}

TEST(RuntimeLifetime, ManyKernelsGetAsManyThreadsAsAStageMayHave) {
  std::vector<device::ScriptedOptions> devices(3);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i].name = "card" + std::to_string(i);
    devices[i].kernels = 50;
  }
  ScriptedRuntime runtime(std::move(devices));
  Pipeline pipeline = runtime.open({});
  EXPECT_EQ(pipeline.status().stages[1].kernels, 150);
  EXPECT_EQ(pipeline.status().stages[1].threads, 256);
  EXPECT_TRUE(pipeline.open_stream().submit({tensor_of(1)})->wait().ok());
}

}  // namespace
}  // namespace tessera::scripted
