// Sequences whose states grow, in the runtime: many at once, tasks in flight, failures, and the memory.
#include "tessera/growing_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "model/testing/attention_model.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using model::testing::attention_mask;
using model::testing::attention_token;
using ::testing::HasSubstr;

class GrowingPipelines : public ::testing::Test {
 protected:
  GrowingPipelines() {
    std::ofstream(path_, std::ios::binary) << model::testing::attention_model();
  }
  ~GrowingPipelines() override { fs::remove(path_); }

  static GrowingOptions options(std::int64_t rows_max = 12,
                                const std::string& arch = "tessera128") {
    GrowingOptions growing;
    growing.load.arch = arch;
    growing.states = {{"past.k", "present.k"}, {"past.v", "present.v"}};
    growing.rows_max = rows_max;
    growing.capacity_min = 4;
    return growing;
  }
  // Step i of sequence s.
  static std::vector<Tensor> inputs(const GrowingStream& stream, int sequence, int step) {
    return {attention_token(100 * sequence + step),
            attention_mask(stream.capacity(), stream.rows() + 1)};
  }
  // What a session of the sequence alone gives at each step, on the host.
  std::vector<std::vector<Tensor>> alone(int sequence, int steps,
                                         const std::string& arch = "tessera128") const {
    auto session =
        GrowingSession::open(path_, options(12, arch), {.device = DeviceKind::kHost, .threads = 1});
    std::vector<std::vector<Tensor>> outputs;
    for (int step = 0; step < steps; ++step) {
      const auto run = session->run(
          {attention_token(100 * sequence + step), attention_mask(session->capacity(), step + 1)});
      EXPECT_TRUE(run.ok()) << run.error().to_string();
      outputs.push_back(run->outputs);
    }
    return outputs;
  }
  static void expect_outputs(Job& job, const std::vector<Tensor>& expected) {
    const TaskOutcome outcome = job.wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
    EXPECT_EQ(outcome.result().outputs(), expected);
  }
  const std::string path_ = ::testing::TempDir() + "growing_pipeline_test.onnx";
};

Runtime runtime_with(const std::vector<DeviceOptions>& devices) {
  return Runtime::open({.devices = devices}).value();
}

std::string error_of(const Result<Job>& job) {
  return job.ok() ? std::string("none") : job.error().to_string();
}

TEST_F(GrowingPipelines, SequencesInFlightHaveTheBitsOfSessionsOfTheirOwn) {
  constexpr int kSequences = 3, kSteps = 11;  // in networks for 4, 8 and 12 rows
  for (const std::string arch : {"tessera128", "f32", "edge"}) {
    std::vector<std::vector<std::vector<Tensor>>> expected;
    for (int s = 0; s < kSequences; ++s) expected.push_back(alone(s, kSteps, arch));
    for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim, DeviceKind::kRef}) {
      Runtime runtime =
          runtime_with({{.kind = kind, .arch = arch, .kernels = kind == DeviceKind::kRef ? 1 : 2}});
      auto pipeline = runtime.open_pipeline(path_, options(12, arch), {});
      ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
      std::vector<GrowingStream> streams;
      for (int s = 0; s < kSequences; ++s) streams.push_back(pipeline->open_stream().value());
      std::vector<std::vector<Job>> jobs(kSequences);
      for (int step = 0; step < kSteps; ++step) {
        for (int s = 0; s < kSequences; ++s) {
          auto job = streams[s].submit(inputs(streams[s], s, step));
          ASSERT_TRUE(job.ok()) << job.error().to_string();
          jobs[s].push_back(std::move(*job));
        }
      }
      for (int s = 0; s < kSequences; ++s) {
        EXPECT_EQ(streams[s].rows(), kSteps);
        for (int step = 0; step < kSteps; ++step) {
          SCOPED_TRACE(arch + " " + device_kind_name(kind) + " step " + std::to_string(step));
          expect_outputs(jobs[s][step], expected[s][step]);
        }
      }
      EXPECT_EQ(pipeline->status().networks_compiled, 3);
      EXPECT_EQ(pipeline->status().submitted, kSequences * kSteps);
    }
  }
}

TEST_F(GrowingPipelines, SequencesAreSpreadOverTheDevicesAndStayThere) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kSim, .name = "a"},
                                  {.kind = DeviceKind::kHost, .name = "b"},
                                  {.kind = DeviceKind::kHost, .name = "c"}});
  auto pipeline = runtime.open_pipeline(path_, options(), {.devices = {"a", "b"}});
  std::map<std::string, int> on;
  std::vector<GrowingStream> streams;
  for (int s = 0; s < 4; ++s) {
    streams.push_back(pipeline->open_stream().value());
    ++on[streams.back().device()];
  }
  EXPECT_EQ(on, (std::map<std::string, int>{{"a", 2}, {"b", 2}}));
  streams.push_back(pipeline->open_stream({.device = "a"}).value());
  EXPECT_EQ(streams.back().device(), "a");
  EXPECT_EQ(pipeline->open_stream({.device = "c"}).error().message,
            "device 'c' is none of the pipeline's");
  EXPECT_EQ(pipeline->open_stream({.device = "d"}).error().message,
            "there is no device 'd'; there are a, b, c");
  const auto expected = alone(1, 6);
  for (int step = 0; step < 6; ++step) {
    std::vector<Job> jobs;
    for (GrowingStream& stream : streams) {
      jobs.push_back(stream.submit(inputs(stream, 1, step)).value());
    }
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const TaskOutcome outcome = jobs[i].wait();
      ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
      EXPECT_EQ(outcome.result().outputs(), expected[static_cast<std::size_t>(step)]);
      EXPECT_EQ(outcome.result().device, streams[i].device());
    }
  }
}

TEST_F(GrowingPipelines, NoStateGoesOverTheLinkButItsZerosOnce) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kSim}});
  auto pipeline = runtime.open_pipeline(path_, options(), {});
  GrowingStream stream = pipeline->open_stream().value();
  auto session = GrowingSession::open(path_, options(), {.device = DeviceKind::kSim});
  std::int64_t in = 0, out = 0;
  const auto moved = [&] {
    const DeviceStatus now = runtime.devices()[0];
    const std::int64_t to = now.bytes_in - now.weight_bytes - in, from = now.bytes_out - out;
    in = now.bytes_in - now.weight_bytes;
    out = now.bytes_out;
    return std::pair(to, from);
  };
  constexpr std::int64_t kRow = 2 * 16 * 4, kToken = kRow;
  for (int step = 0; step < 10; ++step) {
    const std::int64_t capacity = stream.capacity();
    const std::int64_t before = step == 0 ? 0 : step == 4 ? 4 : step == 8 ? 8 : capacity;
    Job job = stream.submit(inputs(stream, 0, step)).value();
    const TaskOutcome outcome = job.wait();
    ASSERT_TRUE(outcome.ok()) << outcome.error().error.to_string();
    // The token, the mask, which row is new; and zeros of rows that no network has seen before.
    const std::int64_t zeros = 2 * kRow * (capacity - before);
    EXPECT_EQ(moved(), std::pair(kToken + 4 * capacity + capacity + zeros, kToken)) << step;
    const auto run = session->run({attention_token(step), attention_mask(capacity, step + 1)});
    EXPECT_EQ(outcome.result().outputs(), run->outputs);
    EXPECT_EQ(outcome.result().cycles, run->cycles);
    EXPECT_EQ(outcome.result().transfer_cycles, run->transfer_cycles);
  }
}

TEST_F(GrowingPipelines, SaysThatThereIsNoRoomAndGoesOnAfterClear) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kSim}});
  auto pipeline = runtime.open_pipeline(path_, options(2), {});
  GrowingStream stream = pipeline->open_stream().value();
  const auto expected = alone(0, 2);
  for (int round = 0; round < 2; ++round) {
    std::vector<Job> jobs;
    for (int step = 0; step < 2; ++step) {
      jobs.push_back(stream.submit(inputs(stream, 0, step)).value());
    }
    EXPECT_EQ(stream.capacity(), 0);
    EXPECT_EQ(error_of(stream.submit({attention_token(2), attention_mask(2, 2)})),
              "the states have 2 rows, as many as GrowingOptions::rows_max; open a pipeline with "
              "more, or clear() this stream   [does not fit]");
    const Status cleared = stream.clear();  // while they are on their way
    ASSERT_TRUE(cleared.ok()) << cleared.error().to_string();
    EXPECT_EQ(stream.rows(), 0);
    for (std::size_t step = 0; step < 2; ++step) expect_outputs(jobs[step], expected[step]);
  }
}

TEST_F(GrowingPipelines, GoesOnBehindTheRowsThatItKeeps) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kSim}, {.kind = DeviceKind::kHost}});
  auto pipeline = runtime.open_pipeline(path_, options(), {});
  const auto expected = alone(0, 7);
  for (const char* const device : {"sim0", "host0"}) {
    GrowingStream stream = pipeline->open_stream({.device = device}).value();
    for (int step = 0; step < 3; ++step) ASSERT_TRUE(stream.submit(inputs(stream, 0, step)).ok());
    // Large ones, which would change what blocks of numbers have in common.
    for (int step = 3; step < 7; ++step) {
      std::vector<Tensor> large = inputs(stream, 0, step);
      for (float& value : large[0].as<float>()) value *= 64;
      ASSERT_TRUE(stream.submit(large).ok());
    }
    EXPECT_EQ(stream.keep_rows(8).error().message, "8 rows to keep, the states have 7");
    ASSERT_TRUE(stream.keep_rows(3).ok());
    EXPECT_EQ(stream.rows(), 3);
    for (int step = 3; step < 7; ++step) {
      Job job = stream.submit(inputs(stream, 0, step)).value();
      expect_outputs(job, expected[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_F(GrowingPipelines, AFailureLeavesTheRowsBeforeItAndEndsWhatIsBehind) {
  for (const DeviceKind kind : {DeviceKind::kHost, DeviceKind::kSim}) {
    Runtime runtime = runtime_with({{.kind = kind}});
    auto pipeline = runtime.open_pipeline(path_, options(), {});
    GrowingStream stream = pipeline->open_stream().value();
    GrowingStream other = pipeline->open_stream().value();
    const auto expected = alone(0, 5);
    std::vector<Job> jobs;
    for (int step = 0; step < 2; ++step) {
      jobs.push_back(stream.submit(inputs(stream, 0, step)).value());
    }
    Job late =
        stream.submit(inputs(stream, 0, 2), {.deadline = std::chrono::nanoseconds(0)}).value();
    for (std::size_t step = 0; step < 2; ++step) expect_outputs(jobs[step], expected[step]);
    EXPECT_EQ(late.wait().error().failure, TaskFailure::kDeadline);
    // Whether it was submitted before the failure was seen or behind it, it is none of the sequence.
    auto behind = stream.submit(inputs(stream, 0, 3));
    if (behind.ok()) {
      const TaskOutcome outcome = behind->wait();
      ASSERT_FALSE(outcome.ok());
      EXPECT_THAT(outcome.error().error.message, HasSubstr("a state: row 2 was not written"));
    }
    stream.wait_until_done();
    EXPECT_EQ(stream.keep_rows(3).ok(), false);
    EXPECT_EQ(stream.rows(), 2);
    EXPECT_THAT(error_of(stream.submit(inputs(stream, 0, 2))),
                HasSubstr("keep_rows(2) goes on from there   [invalid argument]"));
    Job of_other = other.submit(inputs(other, 0, 0)).value();
    expect_outputs(of_other, expected[0]);
    ASSERT_TRUE(stream.keep_rows(2).ok());
    for (int step = 2; step < 5; ++step) {
      Job job = stream.submit(inputs(stream, 0, step)).value();
      expect_outputs(job, expected[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_F(GrowingPipelines, ACallbackSubmitsTheNextToken) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kHost}});
  auto pipeline = runtime.open_pipeline(path_, options(), {});
  GrowingStream stream = pipeline->open_stream().value();
  const auto expected = alone(0, 10);
  std::vector<std::vector<Tensor>> found;
  Status failed;
  std::function<void(TaskOutcome)> next = [&](TaskOutcome outcome) {
    if (outcome.ok()) found.push_back(outcome.result().outputs());
    if (!outcome.ok() || found.size() == expected.size()) return;
    const auto job =
        stream.submit(inputs(stream, 0, static_cast<int>(found.size())), {.callback = next});
    if (!job.ok()) failed = job.error();
  };
  ASSERT_TRUE(stream.submit(inputs(stream, 0, 0), {.callback = next}).ok());
  pipeline->wait_until_done();
  stream.wait_until_done();
  EXPECT_TRUE(failed.ok()) << failed.error().to_string();
  EXPECT_EQ(found, expected);
}

TEST_F(GrowingPipelines, ThreadsShareAStream) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kHost}});
  auto pipeline = runtime.open_pipeline(path_, options(1024), {.pipeline = {.jobs_max = 4}});
  GrowingStream stream = pipeline->open_stream().value();
  std::vector<std::thread> threads;
  std::atomic<int> done{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&stream, &done] {
      for (int i = 0; i < 8; ++i) {
        // Another thread may take the row for which the mask is.
        while (true) {
          auto job = stream.submit_when_room(
              {attention_token(i), attention_mask(stream.capacity(), stream.rows() + 1)});
          if (!job.ok()) continue;
          EXPECT_TRUE(job->wait().ok());
          ++done;
          break;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 32);
  EXPECT_EQ(stream.rows(), 32);
}

TEST_F(GrowingPipelines, TheMemoryOfASequenceGoesWithIt) {
  // Three of them would not fit.
  const std::int64_t rows = 5000;  // of 128 bytes, twice: 1.3 MB
  std::ifstream from(fs::path(TESSERA_ARCH_FOLDER) / "tessera128.toml");
  std::string text(std::istreambuf_iterator<char>(from), {});
  const std::string before = "bytes = 4_294_967_296";
  ASSERT_NE(text.find(before), std::string::npos);
  text.replace(text.find(before), before.size(), "bytes = 3_145_728");
  const std::string arch = ::testing::TempDir() + "growing_pipeline_test.toml";
  std::ofstream(arch) << text;
  Runtime runtime = runtime_with({{.kind = DeviceKind::kSim, .arch = arch}});
  auto pipeline = runtime.open_pipeline(path_, options(rows, arch), {});
  ASSERT_TRUE(pipeline.ok()) << pipeline.error().to_string();
  std::vector<GrowingStream> streams;
  for (int s = 0; s < 2; ++s) streams.push_back(pipeline->open_stream().value());
  for (GrowingStream& stream : streams) {
    Job job = stream.submit(inputs(stream, 0, 0)).value();
    EXPECT_TRUE(job.wait().ok());
  }
  GrowingStream third = pipeline->open_stream().value();
  EXPECT_EQ(pipeline->status().streams, 3);
  const auto refused = third.submit(inputs(third, 0, 0));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kDoesNotFit) << error_of(refused);
  Job last = streams.front().submit(inputs(streams.front(), 0, 1)).value();
  streams.erase(streams.begin());  // while its task is on its way
  EXPECT_TRUE(last.wait().ok());
  for (int tries = 0; tries < 1000 && pipeline->status().streams > 2; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(pipeline->status().streams, 2);
  Job job = third.submit(inputs(third, 0, 0)).value();
  EXPECT_TRUE(job.wait().ok());
  fs::remove(arch);
}

TEST_F(GrowingPipelines, RefusesWhatItCannotDo) {
  Runtime runtime = runtime_with({{.kind = DeviceKind::kHost}});
  GrowingOptions growing = options();
  growing.states = {{"x", "y"}};
  EXPECT_EQ(runtime.open_pipeline(path_, growing, {}).error().to_string(),
            "'" + path_ +
                "': state 'x' -> 'y': the output is made by MatMul, needed is Concat of the "
                "input and the new row   [invalid argument]");
  EXPECT_EQ(runtime.open_pipeline(path_, options(), {.devices = {"b"}}).error().message,
            "there is no device 'b'; there are host0");
  EXPECT_EQ(runtime.open_pipeline(path_, options(), {.pipeline = {.stages = {{}}}}).error().message,
            "GrowingPipelineOptions::pipeline has stages; those of states that grow are pre, "
            "execute and post of each network");
  auto pipeline = runtime.open_pipeline(path_, options(), {});
  ASSERT_EQ(pipeline->inputs().size(), 2U);
  EXPECT_EQ(pipeline->inputs()[0].name, "x");
  EXPECT_EQ(pipeline->inputs()[1].name, "mask");
  GrowingStream stream = pipeline->open_stream().value();
  EXPECT_EQ(error_of(stream.submit({attention_token(0)})),
            "1 inputs, the model takes 2 beside its states   [invalid argument]");
  EXPECT_EQ(error_of(stream.submit({attention_token(0), Tensor::zeros(Format::kI64, {4})})),
            "input 'mask': found i64, the model takes f32   [invalid argument]");
  ASSERT_TRUE(stream.submit({attention_token(0), attention_mask(4, 1)}).ok());
  EXPECT_EQ(error_of(stream.submit({attention_token(0), attention_mask(5, 2)})),
            "input 'mask': given f32 [1x1x1x5], for a capacity of 4 rows it is f32 [1x1x1x4]   "
            "[invalid argument]");
  EXPECT_EQ(error_of(stream.submit({attention_token(0), attention_mask(4, 2)},
                                   {.skipped_stages = {"execute"}})),
            "a task of a sequence that skips stages, so that its row may be missing   "
            "[invalid argument]");
  EXPECT_EQ(stream.rows(), 1);
}

}  // namespace
}  // namespace tessera
