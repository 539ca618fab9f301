// One model for many shapes in the C interface, against networks that were compiled for each.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "model/testing/model_builder.h"
#include "networks.h"
#include "tessera/session.h"
#include "tessera/tessera_dynamic_c.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

class DynamicInC : public testing::Test {
 protected:
  DynamicInC() {
    Tensor weights = Tensor::zeros(Format::kF32, {2, 1, 1, 3});
    for (std::size_t i = 0; i < 6; ++i) weights.as<float>()[i] = static_cast<float>(i) - 2;
    std::ofstream(path_, std::ios::binary)
        << model::testing::ModelBuilder(17)
               .open_input("x", Format::kF32, {"1", "1", "1", "length"})
               .initializer("w", weights)
               .node("Conv", {"x", "w"}, {"y"})
               .output("y")
               .bytes();
  }
  ~DynamicInC() override { std::filesystem::remove(path_); }

  static Tensor ramp(std::int64_t length) {
    Tensor tensor = Tensor::zeros(Format::kF32, {1, 1, 1, length});
    for (std::size_t i = 0; i < tensor.as<float>().size(); ++i) {
      tensor.as<float>()[i] = static_cast<float>(i % 7);
    }
    return tensor;
  }
  Tensor expected(const Tensor& input) const {
    const auto network = Network::load(path_, {.shapes = {{"x", input.dims}}});
    return Session::open(*network, {.device = DeviceKind::kSim})->run({input})->outputs[0];
  }

  const std::string path_ = testing::TempDir() + "dynamic_in_c.onnx";
};

TEST_F(DynamicInC, ShapesAreThoseOfTheTensors) {
  const tessera_dynamic_options options = {.size = sizeof options, .device = TESSERA_SIM};
  tessera_dynamic_session* session = nullptr;
  ASSERT_EQ(message(tessera_dynamic_session_open(path_.c_str(), &options, &session)), "");
  ASSERT_EQ(tessera_dynamic_session_input_count(session), 1U);
  const tessera_tensor_description input = tessera_dynamic_session_input(session, 0);
  EXPECT_STREQ(input.name, "x");
  EXPECT_EQ(std::vector(input.dims, input.dims + input.rank),
            (std::vector<std::int64_t>{1, 1, 1, -1}));
  for (const std::int64_t length : {5, 9, 5}) {
    const Tensor given = ramp(length);
    const tessera_tensor tensor = view(given);
    const tessera_run run = {&tensor, 1};
    tessera_dynamic_result* result = nullptr;
    ASSERT_EQ(message(tessera_dynamic_session_run(session, &run, &result)), "");
    ASSERT_EQ(tessera_dynamic_result_output_count(result), 1U);
    EXPECT_STREQ(tessera_dynamic_result_output_name(result, 0), "y");
    const tessera_tensor output = tessera_dynamic_result_output(result, 0);
    const Tensor wanted = expected(given);
    EXPECT_EQ(std::vector(output.dims, output.dims + output.rank), wanted.dims);
    ASSERT_EQ(output.bytes, wanted.bytes.size());
    EXPECT_EQ(std::memcmp(output.data, wanted.bytes.data(), output.bytes), 0);
    EXPECT_GT(tessera_dynamic_result_cycles(result), 0);
    tessera_dynamic_result_release(result);
  }
  const tessera_dynamic_counters counters = tessera_dynamic_session_counters(session);
  EXPECT_EQ(counters.compiled, 2);
  EXPECT_EQ(counters.kept, 1);
  tessera_dynamic_session_release(session);
}

TEST_F(DynamicInC, RangesRefuseAndBucketsPad) {
  const std::int64_t least[] = {1, 1, 1, 4}, most[] = {1, 1, 1, 0};
  const tessera_named_ranges ranges = {"x", 4, least, most};
  const std::int64_t sizes[] = {8, 16};
  const tessera_named_buckets buckets = {"x", 3, sizes, 2};
  tessera_dynamic_options options = {.size = sizeof options};
  options.ranges = &ranges;
  options.range_count = 1;
  options.buckets = &buckets;
  options.bucket_count = 1;
  tessera_dynamic_session* session = nullptr;
  ASSERT_EQ(message(tessera_dynamic_session_open(path_.c_str(), &options, &session)), "");
  const auto run = [&](std::int64_t length, tessera_dynamic_result** result) {
    const Tensor given = ramp(length);
    const tessera_tensor tensor = view(given);
    const tessera_run inputs = {&tensor, 1};
    return message(tessera_dynamic_session_run(session, &inputs, result));
  };
  tessera_dynamic_result* result = nullptr;
  EXPECT_EQ(run(3, &result),
            "input 'x': dimension 3 is 3, allowed by the options are 4 to 9223372036854775807");
  EXPECT_EQ(run(17, &result), "input 'x': dimension 3 is 17, the largest bucket has 16");
  ASSERT_EQ(run(5, &result), "");
  EXPECT_EQ(tessera_dynamic_result_output(result, 0).dims[3], 6);  // of 8
  tessera_dynamic_result_release(result);
  tessera_dynamic_session_release(session);
  options.buckets = nullptr;
  EXPECT_EQ(message(tessera_dynamic_session_open(path_.c_str(), &options, &session)),
            "buckets is NULL");
}

TEST_F(DynamicInC, AStreamTakesAModelInParts) {
  std::ofstream(path_, std::ios::binary) << model::testing::ModelBuilder(17)
                                                .open_input("x", Format::kF32, {"length"})
                                                .node("NonZero", {"x"}, {"y"})
                                                .output("y")
                                                .bytes();
  tessera_runtime* runtime = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime)), "");
  tessera_dynamic_pipeline* pipeline = nullptr;
  ASSERT_EQ(message(tessera_dynamic_pipeline_open(runtime, path_.c_str(), nullptr, &pipeline)), "");
  tessera_dynamic_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_dynamic_stream_open(pipeline, nullptr, &stream)), "");
  Tensor given = Tensor::zeros(Format::kF32, {4});
  given.as<float>()[2] = 1;
  const tessera_tensor tensor = view(given);
  tessera_job* job = nullptr;
  ASSERT_EQ(message(tessera_dynamic_submit(stream, &tensor, 1, nullptr, &job)), "");
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_job_wait(job, -1, &result)), "");
  const tessera_tensor output = tessera_result_output(result, 0);
  ASSERT_EQ(output.bytes, sizeof(std::int64_t));
  EXPECT_EQ(*static_cast<const std::int64_t*>(output.data), 2);
  EXPECT_EQ(tessera_dynamic_pipeline_status(pipeline).ran_in_parts, 1);
  tessera_result_release(result);
  tessera_job_release(job);
  tessera_dynamic_stream_release(stream);
  tessera_dynamic_pipeline_release(pipeline);
  tessera_runtime_release(runtime);
}

TEST_F(DynamicInC, OneStreamTakesManyShapesAndAFailureIsOfItsJobAlone) {
  tessera_runtime* runtime = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime)), "");
  tessera_dynamic_pipeline* pipeline = nullptr;
  const tessera_dynamic_pipeline_options options = {.size = sizeof options, .pipelines_max = 2};
  ASSERT_EQ(message(tessera_dynamic_pipeline_open(runtime, path_.c_str(), &options, &pipeline)),
            "");
  tessera_dynamic_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_dynamic_stream_open(pipeline, nullptr, &stream)), "");
  const std::vector<std::int64_t> lengths = {5, 2, 9, 5};
  std::vector<tessera_job*> jobs;
  for (const std::int64_t length : lengths) {
    const Tensor given = ramp(length);
    const tessera_tensor tensor = view(given);
    tessera_job* job = nullptr;
    ASSERT_EQ(message(tessera_dynamic_submit(stream, &tensor, 1, nullptr, &job)), "");
    jobs.push_back(job);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    tessera_result* result = nullptr;
    const std::string error = message(tessera_job_wait(jobs[i], -1, &result));
    if (lengths[i] == 2) {  // less than the kernel
      EXPECT_NE(error.find("(Conv)"), std::string::npos) << error;
    } else {
      ASSERT_EQ(error, "");
      const Tensor wanted = expected(ramp(lengths[i]));
      const tessera_tensor output = tessera_result_output(result, 0);
      ASSERT_EQ(output.bytes, wanted.bytes.size());
      EXPECT_EQ(std::memcmp(output.data, wanted.bytes.data(), output.bytes), 0);
    }
    tessera_result_release(result);
    tessera_job_release(jobs[i]);
  }
  tessera_dynamic_stream_wait_until_done(stream);
  tessera_dynamic_pipeline_wait_until_done(pipeline);
  const tessera_dynamic_pipeline_counters counters = tessera_dynamic_pipeline_status(pipeline);
  EXPECT_EQ(counters.failed_shapes, 1);
  EXPECT_EQ(counters.compiled, 2);
  EXPECT_EQ(counters.waiting, 0);
  tessera_dynamic_pipeline_release(pipeline);
  tessera_dynamic_stream_release(stream);
  tessera_runtime_release(runtime);
}

TEST_F(DynamicInC, NullIsNamedOrDoesNothing) {
  tessera_runtime* runtime = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime)), "");
  tessera_dynamic_pipeline* pipeline = nullptr;
  tessera_dynamic_stream* stream = nullptr;
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_dynamic_pipeline_open(nullptr, "x", nullptr, &pipeline)),
            "runtime is NULL");
  EXPECT_EQ(message(tessera_dynamic_pipeline_open(runtime, nullptr, nullptr, &pipeline)),
            "path is NULL");
  EXPECT_EQ(message(tessera_dynamic_pipeline_open(runtime, "x", nullptr, nullptr)),
            "pipeline is NULL");
  EXPECT_EQ(message(tessera_dynamic_stream_open(nullptr, nullptr, &stream)), "pipeline is NULL");
  EXPECT_EQ(message(tessera_dynamic_submit(nullptr, nullptr, 0, nullptr, &job)), "stream is NULL");
  EXPECT_EQ(tessera_dynamic_pipeline_status(nullptr).submitted, 0);
  tessera_dynamic_pipeline_wait_until_done(nullptr);
  tessera_dynamic_stream_wait_until_done(nullptr);
  tessera_dynamic_stream_release(nullptr);
  tessera_dynamic_pipeline_release(nullptr);
  tessera_runtime_release(runtime);
}

}  // namespace
}  // namespace tessera::c_test
