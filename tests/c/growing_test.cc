// Sequences whose states grow in the C interface, against a session in C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/testing/attention_model.h"
#include "networks.h"
#include "tessera/growing_session.h"
#include "tessera/tessera_growing_c.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

using model::testing::attention_mask;
using model::testing::attention_token;

class GrowingInC : public testing::Test {
 protected:
  GrowingInC() {
    std::ofstream(path_, std::ios::binary) << model::testing::attention_model();
    EXPECT_EQ(message(tessera_runtime_open(nullptr, &runtime_)), "");
  }
  ~GrowingInC() override {
    tessera_runtime_release(runtime_);
    std::filesystem::remove(path_);
  }
  std::string open(const tessera_growing_options& options) {
    return message(tessera_growing_pipeline_open(runtime_, path_.c_str(), &options, &pipeline_));
  }
  static std::string submit(tessera_growing_stream* stream, int step, tessera_job** job) {
    const Tensor token = attention_token(step);
    const std::int64_t seen = tessera_growing_rows(stream) + 1;
    const Tensor mask = attention_mask(std::max(seen, tessera_growing_capacity(stream)), seen);
    const tessera_tensor inputs[] = {view(token), view(mask)};
    return message(tessera_growing_submit(stream, inputs, 2, nullptr, job));
  }
  static void expect_output(tessera_job* job, const Tensor& expected) {
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(job, -1, &result)), "");
    const tessera_tensor output = tessera_result_output(result, 0);
    ASSERT_EQ(output.bytes, expected.bytes.size());
    EXPECT_EQ(std::memcmp(output.data, expected.bytes.data(), output.bytes), 0);
    tessera_result_release(result);
    tessera_job_release(job);
  }

  const std::string path_ = testing::TempDir() + "growing_in_c.onnx";
  const tessera_growing_state states_[2] = {{"past.k", "present.k"}, {"past.v", "present.v"}};
  const tessera_growing_options options_ = {sizeof options_, states_, 2, 8, 4};
  tessera_runtime* runtime_ = nullptr;
  tessera_growing_pipeline* pipeline_ = nullptr;
};

TEST_F(GrowingInC, TasksInFlightHaveTheBitsOfASession) {
  ASSERT_EQ(open(options_), "");
  ASSERT_EQ(tessera_growing_input_count(pipeline_), 2U);
  EXPECT_STREQ(tessera_growing_input(pipeline_, 1).name, "mask");
  EXPECT_EQ(tessera_growing_input(pipeline_, 2).name, nullptr);
  GrowingOptions growing;
  growing.states = {{"past.k", "present.k"}, {"past.v", "present.v"}};
  growing.rows_max = 8;
  growing.capacity_min = 4;
  auto session = GrowingSession::open(path_, growing, {.device = DeviceKind::kSim}).value();
  std::vector<Tensor> expected;
  for (int step = 0; step < 8; ++step) {
    expected.push_back(
        session.run({attention_token(step), attention_mask(session.capacity(), step + 1)})
            ->outputs[0]);
  }
  tessera_growing_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_growing_stream_open(pipeline_, "host0", nullptr, &stream)), "");
  std::vector<tessera_job*> jobs(8);
  for (int step = 0; step < 8; ++step) {
    ASSERT_EQ(submit(stream, step, &jobs[static_cast<std::size_t>(step)]), "");
  }
  for (std::size_t step = 0; step < 8; ++step) expect_output(jobs[step], expected[step]);
  tessera_job* job = nullptr;
  EXPECT_EQ(submit(stream, 8, &job),
            "the states have 8 rows, as many as GrowingOptions::rows_max; open a pipeline with "
            "more, or clear() this stream");
  EXPECT_EQ(message(tessera_growing_keep_rows(stream, 9)), "9 rows to keep, the states have 8");
  ASSERT_EQ(message(tessera_growing_keep_rows(stream, 6)), "");
  ASSERT_EQ(submit(stream, 6, &job), "");
  expect_output(job, expected[6]);
  tessera_growing_stream_wait_until_done(stream);
  tessera_growing_pipeline_wait_until_done(pipeline_);
  const tessera_growing_counters counters = tessera_growing_pipeline_status(pipeline_);
  EXPECT_EQ(counters.streams, 1);
  EXPECT_EQ(counters.submitted, 9);
  EXPECT_EQ(counters.networks_compiled, 2);
  tessera_growing_stream_release(stream);
  EXPECT_EQ(tessera_growing_pipeline_status(pipeline_).streams, 0);
  tessera_growing_pipeline_release(pipeline_);
}

TEST_F(GrowingInC, ErrorsNameWhatIsWrong) {
  EXPECT_EQ(open({sizeof options_}), "GrowingOptions::states: none; name at least one");
  EXPECT_EQ(open({sizeof options_, nullptr, 1}), "states is NULL");
  EXPECT_EQ(message(tessera_growing_pipeline_open(nullptr, "x", nullptr, &pipeline_)),
            "runtime is NULL");
  EXPECT_EQ(message(tessera_growing_pipeline_open(runtime_, nullptr, nullptr, &pipeline_)),
            "path is NULL");
  EXPECT_EQ(message(tessera_growing_pipeline_open(runtime_, "x", nullptr, nullptr)),
            "pipeline is NULL");
  tessera_growing_stream* stream = nullptr;
  EXPECT_EQ(message(tessera_growing_stream_open(nullptr, nullptr, nullptr, &stream)),
            "pipeline is NULL");
  EXPECT_EQ(message(tessera_growing_keep_rows(nullptr, 0)), "stream is NULL");
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_growing_submit(nullptr, nullptr, 0, nullptr, &job)), "stream is NULL");
  EXPECT_EQ(tessera_growing_rows(nullptr), 0);
  EXPECT_EQ(tessera_growing_capacity(nullptr), 0);
  EXPECT_EQ(tessera_growing_pipeline_status(nullptr).submitted, 0);
  tessera_growing_stream_wait_until_done(nullptr);
  tessera_growing_pipeline_wait_until_done(nullptr);
  tessera_growing_stream_release(nullptr);
  tessera_growing_pipeline_release(nullptr);
}

}  // namespace
}  // namespace tessera::c_test
