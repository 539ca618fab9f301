// Functions of the application that throw, and tasks that are refused before they enter.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "scripted_runtime.h"

namespace tessera::scripted {
namespace {

device::ScriptedOptions quick() { return computing({}); }

class RuntimeCalls : public testing::Test {
 protected:
  Pipeline open(std::vector<StageOptions> stages) {
    PipelineOptions options;
    options.stages = std::move(stages);
    return runtime_.open(options);
  }
  ScriptedRuntime runtime_{{quick()}};
};

TEST_F(RuntimeCalls, WhatACallbackThrowsIsTheErrorOfItsJob) {
  Pipeline pipeline = open(runtime_.stages());
  Stream stream = pipeline.open_stream();
  std::atomic<int> calls{0};
  const auto throwing = [&](TaskOutcome outcome) {
    EXPECT_TRUE(outcome.ok());
    ++calls;
    throw std::runtime_error("no room on the desk");
  };
  Job first = *stream.submit({tensor_of(1)}, {.callback = throwing});
  Job second = *stream.submit({tensor_of(2)}, {.callback = [&](TaskOutcome) { throw 7; }});
  Job third = *stream.submit({tensor_of(3)}, {.callback = [&](TaskOutcome) { ++calls; }});
  TaskOutcome outcome = first.wait();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().failure, TaskFailure::kError);
  EXPECT_EQ(outcome.error().error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(outcome.error().error.message, "the task's callback threw: no room on the desk");
  EXPECT_EQ(outcome.error().task, first.id());
  EXPECT_EQ(second.wait().error().error.message,
            "the task's callback threw something that is no std::exception");
  pipeline.wait_until_done();
  EXPECT_EQ(calls, 2);
  // Of the others the callback has the outcome, as ever.
  EXPECT_NE(third.wait().error().error.message.find("was taken already"), std::string::npos);
  const PipelineStatus status = pipeline.status();
  EXPECT_EQ(status.succeeded, 3);
  EXPECT_EQ(status.callbacks_threw, 2);
  EXPECT_EQ(status.callback_error, "the task's callback threw something that is no std::exception");
}

// The callback runs in the thread that cancels.
TEST_F(RuntimeCalls, ACallbackMayThrowInWhoeverEndsItsTask) {
  Pipeline pipeline = open({{.name = "slow", .function = [](Task&) {
                               std::this_thread::sleep_for(std::chrono::milliseconds(20));
                               return Status();
                             }}});
  Stream stream = pipeline.open_stream();
  Job job = *stream.submit({tensor_of(1)},
                           {.callback = [](TaskOutcome) { throw std::logic_error("again"); }});
  job.cancel();
  EXPECT_EQ(job.wait().error().error.message, "the task's callback threw: again");
}

TEST_F(RuntimeCalls, WhatAStageThrowsEndsItsTask) {
  Pipeline pipeline = open({{.name = "odd", .function = [](Task& task) -> Status {
                               if (task.sequence % 2 == 1) throw std::runtime_error("odd");
                               return {};
                             }}});
  Stream stream = pipeline.open_stream();
  for (int i = 0; i < 4; ++i) {
    const TaskOutcome outcome = stream.submit({tensor_of(1)})->wait();
    EXPECT_EQ(outcome.ok(), i % 2 == 0);
    if (!outcome.ok()) {
      EXPECT_EQ(outcome.error().error.message, "the stage's function threw: odd");
      EXPECT_EQ(outcome.error().stage, "odd");
    }
  }
}

TEST_F(RuntimeCalls, ATuningLogThatThrowsIsCountedAndTuningGoesOn) {
  PipelineOptions options;
  options.stages = {{.name = "slow",
                     .function =
                         [](Task&) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(1));
                           return Status();
                         }},
                    {.name = "quick", .function = [](Task&) { return Status(); }}};
  options.tune = true;
  options.tuning_log = [](const std::string&) { throw std::runtime_error("the log is full"); };
  Pipeline pipeline = runtime_.open(options);
  Stream stream = pipeline.open_stream();
  for (int i = 0; i < 20'000 && pipeline.status().callbacks_threw == 0; ++i) {
    ASSERT_TRUE(stream.submit_when_room({tensor_of(1)}, {.callback = [](TaskOutcome) {}}).ok());
  }
  pipeline.wait_until_done();
  const PipelineStatus status = pipeline.status();
  EXPECT_GT(status.callbacks_threw, 0);
  EXPECT_EQ(status.callback_error, "the tuning log threw: the log is full");
  EXPECT_TRUE(status.tuning);
}

// ------------------------------------------------------------------------------------ refused

TEST_F(RuntimeCalls, ATaskWithoutItsModelsInputsIsRefused) {
  for (const std::size_t first : {0, 1}) {  // with the stage pre, and without
    std::vector<StageOptions> stages = runtime_.stages();
    stages.erase(stages.begin(), stages.begin() + static_cast<std::ptrdiff_t>(first));
    Pipeline pipeline = open(stages);
    Stream stream = pipeline.open_stream();
    const std::string none = "0 inputs given, the model has 1";
    EXPECT_EQ(stream.submit({}).error().message, none);
    EXPECT_EQ(stream.submit_when_room({}).error().message, none);
    EXPECT_EQ(stream.submit_runs({{}}).error().message, none);
    EXPECT_EQ(stream.submit({tensor_of(1), tensor_of(2)}).error().message,
              "2 inputs given, the model has 1");
    const std::string no_runs = "a task without runs; give the model's inputs at least once";
    EXPECT_EQ(stream.submit_runs({}).error().message, no_runs);
    EXPECT_EQ(stream.submit_runs_when_room({}).error().message, no_runs);
    EXPECT_EQ(stream.submit_runs({{tensor_of(1)}, {}}).error().message, "run 1: " + none);
    EXPECT_EQ(stream.submit_batch({{tensor_of(1)}, {}}).error().message, "task 1: " + none);
    EXPECT_NE(stream.submit({Tensor::zeros(Format::kF64, {3})}).error().message.find("found f64"),
              std::string::npos);
    Tensor cut = tensor_of(1);
    cut.bytes.resize(3);
    EXPECT_NE(stream.submit({cut}).error().message.find("3 bytes for"), std::string::npos);
    const PipelineStatus status = pipeline.status();
    EXPECT_EQ(status.submitted, 0);  // not one of a batch either
    EXPECT_EQ(status.in_flight, 0U);
    EXPECT_TRUE(stream.submit({tensor_of(1)})->wait().ok());
  }
}

// What a function makes of it is unknown before.
TEST_F(RuntimeCalls, WhereAFunctionComesFirstEveryTaskMayEnter) {
  std::vector<StageOptions> stages = runtime_.stages();
  stages.insert(stages.begin(), {.name = "make", .function = [](Task& task) {
                                   task.runs = {{tensor_of(5)}};
                                   return Status();
                                 }});
  Pipeline pipeline = open(stages);
  Stream stream = pipeline.open_stream();
  EXPECT_TRUE(stream.submit({})->wait().ok());
  EXPECT_TRUE(stream.submit_runs({})->wait().ok());
  SubmitOptions skipping;
  skipping.skipped_stages = {"make"};
  EXPECT_EQ(stream.submit({}, skipping).error().message, "0 inputs given, the model has 1");
}

}  // namespace
}  // namespace tessera::scripted
