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
  DynamicNetwork convolution() const {
    const std::string path = folder_ + "/conv.onnx";
    std::ofstream(path, std::ios::binary)
        << ModelBuilder(17)
               .open_input("x", Format::kF32, {"batch", "3", "height", "width"})
               .initializer("w", ramp({4, 3, 1, 3}))
               .node("Conv", {"x", "w"}, {"y"})
               .output("y")
               .bytes();
    return DynamicNetwork::open(path).value();
  }
  const std::string folder_ = ::testing::TempDir() + "dynamic_pipeline_test";
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
    std::vector<Job> jobs;
    std::vector<Tensor> expected;
    for (const std::int64_t width : {40, 5, 9, 40, 3, 9, 5, 100}) {
      const Tensor x = ramp({1, 3, 2, width});
      wanted.push_back({1, 4, 2, width - 2});
      expected.push_back(session->run({x})->outputs[0]);
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
