// One stream for tasks of many shapes: results in order, networks when they are needed, errors of one task alone.
#include "tessera/dynamic_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "model/testing/model_builder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using model::testing::Ints;
using model::testing::ModelBuilder;
using ::testing::HasSubstr;

Tensor ramp(const Shape& dims) {
  Tensor tensor = Tensor::zeros(Format::kF32, dims);
  const auto values = tensor.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) - 8;
  return tensor;
}

class DynamicPipelines : public ::testing::Test {
 protected:
  DynamicPipelines() { fs::create_directories(folder_); }
  ~DynamicPipelines() override { fs::remove_all(folder_); }
  // x [batch, 3, height, width] -> Conv -> y; a width of less than 3 is none it can take.
  DynamicNetwork convolution(const DynamicOptions& options = {}) const {
    const std::string path = folder_ + "/conv.onnx";
    std::ofstream(path, std::ios::binary)
        << ModelBuilder(17)
               .open_input("x", Format::kF32, {"batch", "3", "height", "width"})
               .initializer("w", ramp({4, 3, 1, 3}))
               .node("Conv", {"x", "w"}, {"y"})
               .output("y")
               .bytes();
    return DynamicNetwork::open(path, options).value();
  }
  const std::string folder_ = ::testing::TempDir() + "dynamic_pipeline_test";
};

// Holds compilations up while it is closed.
class Gate {
 public:
  DynamicOptions options() {
    return {.load = {.progress = [this](const std::string&, double) {
              std::unique_lock lock(mutex_);
              ++reached_;
              changed_.notify_all();
              changed_.wait(lock, [this] { return open_; });
            }}};
  }
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    reached_ = 0;
    changed_.notify_all();
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reached_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
  int reached_ = 0;
};

Runtime runtime_with(DeviceKind kind) {
  return Runtime::open({.devices = {{.kind = kind}}}).value();
}

TEST_F(DynamicPipelines, ResultsOfManyShapesComeInTheOrderOfSubmissionWithTheBitsOfASession) {
  const DynamicNetwork network = convolution();
  for (const DeviceKind device : {DeviceKind::kHost, DeviceKind::kSim}) {
    Runtime runtime = runtime_with(device);
    auto pipeline = runtime.open_pipeline(network, {});
    ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
    DynamicStream stream = pipeline->open_stream();
    auto session = DynamicSession::open(network, {.device = device});
    std::mutex mutex;
    std::vector<Shape> order, wanted;
    std::vector<Tensor> given, expected;
    for (const std::int64_t width : {40, 5, 9, 40, 3, 9, 5, 100}) {
      given.push_back(ramp({1, 3, 2, width}));
      wanted.push_back({1, 4, 2, width - 2});
      expected.push_back(session->run({given.back()})->outputs[0]);
    }
    for (const Tensor& x : given) {
      auto job = stream.submit_when_room(
          {x}, {.callback = [&](TaskOutcome outcome) {
            ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
            const std::lock_guard lock(mutex);
            EXPECT_EQ(outcome.result().outputs()[0], expected[order.size()]);
            order.push_back(outcome.result().outputs()[0].dims);
          }});
      ASSERT_TRUE(job.ok()) << job.error().to_string();
    }
    stream.wait_until_done();
    EXPECT_EQ(order, wanted);
    EXPECT_EQ(pipeline->status().pipelines_opened, 5);
    EXPECT_EQ(pipeline->status().submitted, 8);
  }
  EXPECT_EQ(network.counters().compiled, 5);
}

TEST_F(DynamicPipelines, AShapeWithoutANetworkFailsItsJobAloneAndInItsTurn) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  auto pipeline = runtime.open_pipeline(convolution(), {});
  DynamicStream stream = pipeline->open_stream();
  std::vector<Job> jobs;
  for (const std::int64_t width : {8, 2, 8}) {
    auto job = stream.submit({ramp({1, 3, 1, width})});
    ASSERT_TRUE(job.ok()) << job.error().to_string();
    jobs.push_back(std::move(*job));
  }
  EXPECT_TRUE(jobs[0].wait().ok());
  const TaskOutcome failed = jobs[1].wait();
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().failure, TaskFailure::kError);
  EXPECT_EQ(failed.error().sequence, 1U);
  EXPECT_THAT(failed.error().error.message, HasSubstr("(Conv)"));
  const TaskOutcome last = jobs[2].wait();
  ASSERT_TRUE(last.ok());
  EXPECT_EQ(last.result().sequence, 2U);
  EXPECT_EQ(pipeline->status().failed_shapes, 1);
}

TEST_F(DynamicPipelines, SubmitDoesNotWaitForACompilationAndOtherStreamsFlowOnMeanwhile) {
  Gate gate;
  Runtime runtime = runtime_with(DeviceKind::kHost);
  const DynamicNetwork network = convolution(gate.options());
  auto pipeline = runtime.open_pipeline(network, {});
  DynamicStream stream = pipeline->open_stream(), other = pipeline->open_stream();
  const Tensor known = ramp({1, 3, 1, 8}), unknown = ramp({1, 3, 1, 20});
  ASSERT_TRUE(other.submit({known})->wait().ok());
  gate.set(false);
  Job first = *stream.submit({unknown});
  Job second = *stream.submit({known});
  gate.wait_until_reached();
  EXPECT_TRUE(other.submit({known})->wait().ok());
  EXPECT_EQ(pipeline->status().waiting, 2);
  EXPECT_FALSE(first.done());
  EXPECT_FALSE(second.done());
  gate.set(true);
  EXPECT_EQ(first.wait().result().outputs()[0].dims, (Shape{1, 4, 1, 18}));
  EXPECT_EQ(second.wait().result().sequence, 1U);
  pipeline->wait_until_done();
  EXPECT_EQ(pipeline->status().waiting, 0);
  EXPECT_EQ(pipeline->status().networks.compiled, 2);
}

TEST_F(DynamicPipelines, AJobCanBeCancelledOrBeLateWhileItsNetworkIsCompiled) {
  Gate gate;
  Runtime runtime = runtime_with(DeviceKind::kHost);
  const DynamicNetwork network = convolution(gate.options());
  auto pipeline = runtime.open_pipeline(network, {});
  DynamicStream stream = pipeline->open_stream();
  gate.set(false);
  Job compiling = *stream.submit({ramp({1, 3, 1, 8})});
  Job late = *stream.submit({ramp({1, 3, 1, 9})}, {.deadline = std::chrono::milliseconds(1)});
  Job last = *stream.submit({ramp({1, 3, 1, 8})});
  gate.wait_until_reached();
  compiling.cancel();
  EXPECT_EQ(compiling.wait().error().failure, TaskFailure::kCancelled);
  EXPECT_EQ(late.wait().error().failure, TaskFailure::kDeadline);
  gate.set(true);
  EXPECT_TRUE(last.wait().ok());
  pipeline->wait_until_done();
  // No network is made for a task that is over.
  EXPECT_EQ(pipeline->status().networks.compiled, 1);
  EXPECT_EQ(pipeline->status().failed_shapes, 0);
}

TEST_F(DynamicPipelines, ThePipelineEndsWithTasksThatWaitForTheirNetwork) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  std::vector<Job> jobs;
  {
    auto pipeline = runtime.open_pipeline(convolution(), {});
    DynamicStream stream = pipeline->open_stream();
    for (const std::int64_t width : {8, 9, 10}) {
      jobs.push_back(*stream.submit({ramp({1, 3, 1, width})}));
    }
  }
  for (Job& job : jobs) EXPECT_TRUE(job.wait().ok());
}

TEST_F(DynamicPipelines, AModelInPartsRunsInTheOrderOfItsStreamWithTheBitsOfASession) {
  const std::string path = folder_ + "/parts.onnx";
  std::ofstream(path, std::ios::binary) << ModelBuilder(17)
                                               .open_input("x", Format::kF32, {"n", "4"})
                                               .initializer("w", ramp({4, 4}))
                                               .node("MatMul", {"x", "w"}, {"product"})
                                               .node("NonZero", {"product"}, {"y"})
                                               .output("y")
                                               .bytes();
  const DynamicNetwork network = DynamicNetwork::open(path).value();
  for (const DeviceKind device : {DeviceKind::kHost, DeviceKind::kSim}) {
    Runtime runtime = runtime_with(device);
    auto pipeline = runtime.open_pipeline(network, {});
    DynamicStream stream = pipeline->open_stream();
    auto session = DynamicSession::open(network, {.device = device});
    std::vector<Job> jobs;
    for (const std::int64_t rows : {3, 1, 3}) {
      jobs.push_back(*stream.submit({ramp({rows, 4})}));
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const TaskOutcome outcome = jobs[i].wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
      const auto alone = session->run({ramp({i == 1 ? 1 : 3, 4})});
      EXPECT_EQ(outcome.result().runs.front(), alone->outputs);
      EXPECT_EQ(outcome.result().cycles, alone->cycles);
      EXPECT_EQ(outcome.result().sequence, i);
    }
    EXPECT_EQ(pipeline->status().ran_in_parts, 3);
  }
}

TEST_F(DynamicPipelines, APipelineWithoutTasksGoesForAnother) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  auto pipeline = runtime.open_pipeline(convolution(), {.pipelines_max = 2});
  DynamicStream stream = pipeline->open_stream();
  for (const std::int64_t width : {8, 9, 8, 10, 8}) {
    ASSERT_TRUE(stream.submit({ramp({1, 3, 1, width})})->wait().ok());
    pipeline->wait_until_done();
    EXPECT_LE(pipeline->status().pipelines, 2);
  }
  EXPECT_EQ(pipeline->status().pipelines_opened, 3);
}

TEST_F(DynamicPipelines, ACallbackMaySubmitAnotherShape) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  auto pipeline = runtime.open_pipeline(convolution(), {.pipelines_max = 1});
  DynamicStream stream = pipeline->open_stream();
  DynamicStream other = pipeline->open_stream();
  std::atomic<int> done = 0;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(stream
                    .submit({ramp({1, 3, 1, 8 + i})},
                            {.callback =
                                 [&, i](const TaskOutcome&) {
                                   EXPECT_TRUE(other
                                                   .submit({ramp({1, 3, 2, 20 + i})},
                                                           {.callback =
                                                                [&](const TaskOutcome& outcome) {
                                                                  EXPECT_TRUE(outcome.ok());
                                                                  ++done;
                                                                }})
                                                   .ok());
                                 }})
                    .ok());
  }
  stream.wait_until_done();
  pipeline->wait_until_done();
  EXPECT_EQ(done, 4);
}

TEST_F(DynamicPipelines, ThreadsMaySubmitToOneStream) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  auto pipeline = runtime.open_pipeline(convolution(), {.pipelines_max = 2});
  DynamicStream stream = pipeline->open_stream();
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        auto job = stream.submit_when_room({ramp({1, 3, 1, 5 + (t + i) % 5})});
        if (job.ok() && job->wait().ok()) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

TEST_F(DynamicPipelines, WhatIsWrongIsNamed) {
  Runtime runtime = runtime_with(DeviceKind::kHost);
  const DynamicNetwork network = convolution();
  EXPECT_THAT(runtime.open_pipeline(network, {.pipelines_max = 0}).error().message,
              HasSubstr("pipelines_max is 0, allowed is 1 or more"));
  EXPECT_FALSE(runtime.open_pipeline(network, {.devices = {"gpu7"}}).ok());
  auto pipeline = runtime.open_pipeline(network, {});
  EXPECT_THAT(pipeline->open_stream().submit({ramp({1, 4, 1, 8})}).error().message,
              HasSubstr("input 'x': found f32 1x4x1x8, the model takes f32 ?x3x?x?"));
}

}  // namespace
}  // namespace tessera
