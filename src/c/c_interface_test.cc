// The C interface from the outside: what a C program does, and the errors it gets. The address
// sanitizer checks that everything released is freed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tessera/tessera_c.h"

// What is not named is zero, as in C.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace {

constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";
constexpr int64_t kForever = -1;

// The message of an error, which is released; "" for none.
std::string message(tessera_error* error) {
  if (error == nullptr) return "";
  std::string text = tessera_error_message(error);
  tessera_error_release(error);
  return text;
}

void expect_code(tessera_error* error, tessera_code code) {
  EXPECT_EQ(tessera_error_code(error), code) << (error ? tessera_error_message(error) : "");
  tessera_error_release(error);
}

void expect_failure(tessera_error* error, tessera_failure failure) {
  EXPECT_EQ(tessera_error_failure(error), failure) << (error ? tessera_error_message(error) : "");
  tessera_error_release(error);
}

// A network that takes the maximum of 0 and each of 60 numbers, on devices of a runtime.
class CInterface : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(message(tessera_network_load(kRelu, nullptr, &network_)), "");
    const tessera_device_options devices[] = {
        {.size = sizeof devices[0],
         .kind = TESSERA_HOST,
         .name = "fast",
         .kernels = 2,
         .threads = 2},
        {.size = sizeof devices[0], .kind = TESSERA_SIM, .name = "slow"}};
    const tessera_runtime_options options = {
        .size = sizeof options, .devices = devices, .device_count = 2};
    ASSERT_EQ(message(tessera_runtime_open(&options, &runtime_)), "");
    ASSERT_EQ(message(tessera_model_load(runtime_, network_, nullptr, 0, &model_)), "");
    ASSERT_EQ(message(tessera_pipeline_open(runtime_, model_, nullptr, &pipeline_)), "");
    ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<float>(i) / 2 - 15;
    }
  }
  // An unusual order of release.
  void TearDown() override {
    tessera_runtime_release(runtime_);
    tessera_model_release(model_);
    tessera_network_release(network_);
    tessera_pipeline_release(pipeline_);
    tessera_stream_release(stream_);
  }

  tessera_tensor input() const {
    return {TESSERA_F32, 3, dims_, values_.data(), values_.size() * sizeof(float)};
  }
  tessera_job* submit(const tessera_submit_options* options = nullptr) {
    const tessera_tensor tensor = input();
    tessera_job* job = nullptr;
    EXPECT_EQ(message(tessera_submit(stream_, &tensor, 1, options, &job)), "");
    return job;
  }
  void expect_right(const tessera_result* result) const {
    ASSERT_NE(result, nullptr);
    ASSERT_EQ(tessera_result_output_count(result), 1U);
    const tessera_tensor output = tessera_result_output(result, 0);
    EXPECT_EQ(output.format, TESSERA_F32);
    ASSERT_EQ(output.rank, 3U);
    EXPECT_EQ(output.dims[1], 4);
    ASSERT_EQ(output.bytes, values_.size() * sizeof(float));
    const auto* const found = static_cast<const float*>(output.data);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      EXPECT_EQ(found[i], std::fmax(values_[i], 0.0f));
    }
  }

  const int64_t dims_[3] = {3, 4, 5};
  std::vector<float> values_ = std::vector<float>(60);
  tessera_network* network_ = nullptr;
  tessera_runtime* runtime_ = nullptr;
  tessera_model* model_ = nullptr;
  tessera_pipeline* pipeline_ = nullptr;
  tessera_stream* stream_ = nullptr;
};

TEST_F(CInterface, DescribesTheNetwork) {
  EXPECT_EQ(std::string(tessera_version()).find("0."), 0U);
  ASSERT_EQ(tessera_network_input_count(network_), 1U);
  ASSERT_EQ(tessera_network_output_count(network_), 1U);
  const tessera_tensor_description x = tessera_network_input(network_, 0);
  EXPECT_STREQ(x.name, "x");
  EXPECT_EQ(x.format, TESSERA_F32);
  ASSERT_EQ(x.rank, 3U);
  EXPECT_EQ(x.dims[2], 5);
  EXPECT_STREQ(tessera_network_output(network_, 0).name, "y");
  EXPECT_EQ(tessera_network_output(network_, 1).name, nullptr);
  EXPECT_GT(tessera_network_nodes_on_processor(network_), 0);
  EXPECT_EQ(tessera_network_nodes_on_host(network_), 0);
  EXPECT_EQ(tessera_format_bytes(TESSERA_F64), 8U);
  EXPECT_EQ(tessera_format_bytes(static_cast<tessera_format>(99)), 0U);
}

TEST_F(CInterface, ASavedPackageIsANetwork) {
  const std::string path = testing::TempDir() + "c_interface_test.tpkg";
  ASSERT_EQ(message(tessera_network_save_package(network_, path.c_str())), "");
  tessera_network* loaded = nullptr;
  ASSERT_EQ(message(tessera_network_load(path.c_str(), nullptr, &loaded)), "");
  EXPECT_EQ(tessera_network_input_count(loaded), 1U);
  tessera_network_release(loaded);
  std::filesystem::remove(path);
}

TEST_F(CInterface, ResultsComeInOrderFromEveryDevice) {
  std::vector<tessera_job*> jobs;
  for (int i = 0; i < 20; ++i) jobs.push_back(submit());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(jobs[i], kForever, &result)), "");
    EXPECT_TRUE(tessera_job_done(jobs[i]));
    expect_right(result);
    EXPECT_EQ(tessera_result_sequence(result), i);
    const std::string device = tessera_result_device(result);
    EXPECT_EQ(tessera_result_cycles(result) > 0, device == "slow") << device;
    tessera_times times = {.size = sizeof times};
    ASSERT_EQ(message(tessera_result_times(result, &times)), "");
    EXPECT_GT(times.total_ns, times.kernel_ns);
    EXPECT_GT(times.kernel_ns, 0);
    EXPECT_EQ(tessera_result_output(result, 1).data, nullptr);
    EXPECT_EQ(tessera_result_value_note_count(result), 0U);
    tessera_value_note note = {.size = sizeof note};
    EXPECT_EQ(message(tessera_result_value_note(result, 0, &note)), "");
    EXPECT_EQ(note.layer, nullptr);
    tessera_result_release(result);
    EXPECT_NE(tessera_job_id(jobs[i]), i == 0 ? 0 : tessera_job_id(jobs[i - 1]));
  }
  // A result is handed over once.
  tessera_result* result = nullptr;
  EXPECT_NE(message(tessera_job_wait(jobs[0], kForever, &result)), "");
  EXPECT_EQ(result, nullptr);
  for (tessera_job* job : jobs) tessera_job_release(job);
}

TEST_F(CInterface, ACallbackOwnsItsResult) {
  struct Seen {
    std::vector<tessera_result*> results;
  } seen;  // calls of one stream come one after the other
  tessera_submit_options options = {.size = sizeof options};
  options.callback = [](void* context, tessera_result* result, tessera_error* error) {
    EXPECT_EQ(message(error), "");
    static_cast<Seen*>(context)->results.push_back(result);
  };
  options.context = &seen;
  const tessera_tensor tensor = input();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, &options, nullptr)), "");
  }
  tessera_stream_wait_until_done(stream_);
  ASSERT_EQ(seen.results.size(), 5U);
  for (tessera_result* result : seen.results) {
    expect_right(result);
    tessera_result_release(result);
  }
}

TEST_F(CInterface, WaitAnyNamesAJobThatIsDoneAndPassesNullBy) {
  tessera_job* jobs[] = {nullptr, submit(), nullptr, submit()};
  std::size_t index = 99;
  ASSERT_TRUE(tessera_wait_any(jobs, 4, kForever, &index));
  ASSERT_TRUE(index == 1 || index == 3) << index;
  EXPECT_TRUE(tessera_job_done(jobs[index]));
  EXPECT_FALSE(tessera_wait_any(jobs, 1, kForever, &index));
  for (tessera_job* job : jobs) tessera_job_release(job);
  tessera_pipeline_wait_until_done(pipeline_);
}

TEST_F(CInterface, ACancelledTaskSaysSo) {
  // Nothing runs on a device at a millionth of its speed before the cancel comes.
  const tessera_device_options device = {.size = sizeof device, .kind = TESSERA_SIM, .pace = 1e-6};
  const tessera_runtime_options options = {
      .size = sizeof options, .devices = &device, .device_count = 1};
  tessera_runtime* runtime = nullptr;
  tessera_model* model = nullptr;
  tessera_pipeline* pipeline = nullptr;
  tessera_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(&options, &runtime)), "");
  ASSERT_EQ(message(tessera_model_load(runtime, network_, nullptr, 0, &model)), "");
  const tessera_pipeline_options small = {.size = sizeof small, .jobs_max = 2, .low_latency = true};
  ASSERT_EQ(message(tessera_pipeline_open(runtime, model, &small, &pipeline)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline, &stream)), "");
  const tessera_tensor tensor = input();
  const tessera_submit_options full = {.size = sizeof full, .fail_if_full = true};
  const tessera_submit_options late = {.size = sizeof late, .deadline_ns = 1};
  tessera_job *job = nullptr, *second = nullptr, *refused = nullptr, *expired = nullptr;
  ASSERT_EQ(message(tessera_submit(stream, &tensor, 1, nullptr, &job)), "");
  tessera_result* result = nullptr;
  EXPECT_EQ(tessera_job_wait(job, 1000, &result), nullptr);
  EXPECT_EQ(result, nullptr);
  // Two jobs fill the pipeline, neither of which ends by itself.
  ASSERT_EQ(message(tessera_submit(stream, &tensor, 1, nullptr, &second)), "");
  EXPECT_FALSE(tessera_stream_wait_for_room(stream, 0));
  expect_code(tessera_submit(stream, &tensor, 1, &full, &refused), TESSERA_UNAVAILABLE);
  EXPECT_EQ(refused, nullptr);
  tessera_job_cancel(second);
  expect_failure(tessera_job_wait(second, kForever, &result), TESSERA_FAILURE_CANCELLED);
  // Its place is free, but not the device before the next job's time is over.
  ASSERT_TRUE(tessera_stream_wait_for_room(stream, kForever));
  ASSERT_EQ(message(tessera_submit(stream, &tensor, 1, &late, &expired)), "");
  expect_failure(tessera_job_wait(expired, kForever, &result), TESSERA_FAILURE_DEADLINE);
  tessera_job_cancel(job);
  expect_failure(tessera_job_wait(job, kForever, &result), TESSERA_FAILURE_CANCELLED);
  for (tessera_job* done : {job, second, expired}) tessera_job_release(done);
  tessera_stream_release(stream);
  tessera_pipeline_release(pipeline);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
}

TEST_F(CInterface, StatisticsCount) {
  for (int i = 0; i < 3; ++i) {
    tessera_job* job = submit();
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
    tessera_result_release(result);
    tessera_job_release(job);
  }
  ASSERT_EQ(message(tessera_pipeline_set_threads(pipeline_, "pre", 2)), "");
  ASSERT_EQ(message(tessera_pipeline_set_kernels(pipeline_, "execute", 1)), "");
  tessera_pipeline_wait_until_done(pipeline_);
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
  ASSERT_EQ(tessera_statistics_device_count(statistics), 2U);
  tessera_device_statistics devices[2] = {{.size = sizeof devices[0]}, {.size = sizeof devices[0]}};
  for (std::size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(message(tessera_statistics_device(statistics, i, &devices[i])), "");
  }
  EXPECT_EQ(message(tessera_statistics_device(statistics, 2, devices)), "device 2 of 2");
  EXPECT_STREQ(devices[0].name, "fast");
  EXPECT_EQ(devices[1].kind, TESSERA_SIM);
  EXPECT_EQ(devices[0].runs + devices[1].runs, 3);
  EXPECT_TRUE(devices[0].healthy);
  ASSERT_EQ(tessera_statistics_stage_count(statistics), 3U);
  tessera_stage_statistics stages[3];
  for (std::size_t i = 0; i < 3; ++i) {
    stages[i].size = sizeof stages[i];
    ASSERT_EQ(message(tessera_statistics_stage(statistics, i, &stages[i])), "");
  }
  EXPECT_EQ(message(tessera_statistics_stage(statistics, 3, stages)), "stage 3 of 3");
  EXPECT_STREQ(stages[0].name, "pre");
  EXPECT_EQ(stages[0].threads, 2);
  EXPECT_EQ(stages[1].kernels, 1);
  EXPECT_EQ(stages[2].tasks, 3);
  tessera_task_statistics tasks = {.size = sizeof tasks};
  ASSERT_EQ(message(tessera_statistics_tasks(statistics, &tasks)), "");
  EXPECT_EQ(tasks.submitted, 3);
  EXPECT_EQ(tasks.succeeded, 3);
  tessera_statistics_release(statistics);
}

TEST_F(CInterface, ATraceIsWritten) {
  tessera_job* job = submit();
  tessera_stream_wait_until_done(stream_);
  tessera_job_release(job);
  const std::string path = testing::TempDir() + "c_interface_test.json";
  ASSERT_EQ(message(tessera_runtime_write_trace(runtime_, path.c_str())), "");
  EXPECT_GT(std::filesystem::file_size(path), 100U);
  std::filesystem::remove(path);
}

TEST_F(CInterface, CallsThatAreWrongAreToldWhy) {
  tessera_network* network = nullptr;
  EXPECT_EQ(message(tessera_network_load(kRelu, nullptr, nullptr)), "network is NULL");
  EXPECT_EQ(message(tessera_network_load(nullptr, nullptr, &network)), "path is NULL");
  tessera_error* error = tessera_network_load("/nowhere/x.onnx", nullptr, &network);
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(network, nullptr);
  EXPECT_EQ(tessera_error_failure(error), TESSERA_FAILURE_NONE);
  EXPECT_STREQ(tessera_error_stage(error), "");
  EXPECT_NE(std::string(tessera_error_message(error)).find("/nowhere/x.onnx"), std::string::npos);
  tessera_error_release(error);

  tessera_job* job = nullptr;
  const tessera_tensor right = input();
  EXPECT_EQ(message(tessera_submit(nullptr, &right, 1, nullptr, &job)), "stream is NULL");
  EXPECT_EQ(message(tessera_submit(stream_, nullptr, 1, nullptr, &job)), "inputs is NULL");
  EXPECT_EQ(message(tessera_submit(stream_, &right, 1, nullptr, nullptr)),
            "job, which only a task with a callback can do without, is NULL");
  tessera_tensor wrong = right;
  wrong.bytes = 4;
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 0 has 4 bytes; its shape needs 240");
  wrong = right;
  wrong.format = static_cast<tessera_format>(77);
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 0 has the format 77, which there is not");
  wrong = right;
  wrong.dims = nullptr;
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 0 has no extents: dims is NULL");
  wrong = right;
  wrong.data = nullptr;
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 0 has no elements: data is NULL");
  const int64_t negative[] = {3, -4, 5};
  wrong = right;
  wrong.dims = negative;
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 0 has the extent -4");
  EXPECT_EQ(job, nullptr);

  const tessera_device_options device = {.size = sizeof device,
                                         .kind = static_cast<tessera_device_kind>(9)};
  const tessera_runtime_options options = {
      .size = sizeof options, .devices = &device, .device_count = 1};
  tessera_runtime* runtime = nullptr;
  EXPECT_EQ(message(tessera_runtime_open(&options, &runtime)),
            "device kind 9 is none of TESSERA_HOST, _SIM, _REF");
  EXPECT_EQ(message(tessera_pipeline_set_threads(pipeline_, nullptr, 1)), "stage is NULL");
}

TEST_F(CInterface, ATaskOfAnotherShapeIsRefused) {
  const int64_t dims[] = {60};
  tessera_tensor wrong = input();
  wrong.rank = 1;
  wrong.dims = dims;
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_submit(stream_, &wrong, 1, nullptr, &job)),
            "input 'x': found f32 [60], the model takes f32 [3x4x5]");
  EXPECT_EQ(job, nullptr);
}

TEST_F(CInterface, ATaskWithoutInputsOrRunsIsRefused) {
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_submit(stream_, nullptr, 0, nullptr, &job)),
            "0 inputs given, the model has 1");
  EXPECT_EQ(message(tessera_submit_runs(stream_, nullptr, 0, nullptr, &job)),
            "a task without runs; give the model's inputs at least once");
  const tessera_tensor tensor = input();
  const tessera_run runs[] = {{&tensor, 1}, {nullptr, 0}};
  EXPECT_EQ(message(tessera_submit_runs(stream_, runs, 2, nullptr, &job)),
            "run 1: 0 inputs given, the model has 1");
  tessera_job* jobs[2] = {};
  EXPECT_EQ(message(tessera_submit_batch(stream_, &runs[1], 1, nullptr, jobs)),
            "0 inputs given, the model has 1");
  const tessera_submit_options full = {.size = sizeof full, .fail_if_full = true};
  EXPECT_EQ(message(tessera_submit(stream_, nullptr, 0, &full, &job)),
            "0 inputs given, the model has 1");
  EXPECT_EQ(job, nullptr);
}

// This test is C++, where a function of C may throw.
TEST_F(CInterface, WhatACallbackThrowsIsTheErrorOfItsJob) {
  tessera_submit_options options = {.size = sizeof options};
  options.callback = [](void*, tessera_result* result, tessera_error*) {
    tessera_result_release(result);
    throw std::runtime_error("boom");
  };
  tessera_job* job = submit(&options);
  tessera_result* result = nullptr;
  EXPECT_EQ(message(tessera_job_wait(job, kForever, &result)), "the task's callback threw: boom");
  EXPECT_EQ(result, nullptr);
  tessera_job_release(job);
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
  tessera_task_statistics tasks = {.size = sizeof tasks};
  ASSERT_EQ(message(tessera_statistics_tasks(statistics, &tasks)), "");
  EXPECT_EQ(tasks.callbacks_threw, 1);
  EXPECT_STREQ(tasks.callback_error, "the task's callback threw: boom");
  tessera_statistics_release(statistics);
}

TEST_F(CInterface, AChildOfForkGetsErrorsAndDoesNotHang) {
  tessera_job* job = submit();
  tessera_stream_wait_until_done(stream_);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const char* const gone =
        "this process was forked after the pipeline was opened; open it again in the child";
    tessera_job* none = nullptr;
    tessera_result* result = nullptr;
    tessera_statistics* statistics = nullptr;
    const tessera_tensor tensor = input();
    EXPECT_EQ(message(tessera_submit(stream_, &tensor, 1, nullptr, &none)), gone);
    EXPECT_NE(message(tessera_job_wait(job, kForever, &result)), "");
    EXPECT_NE(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
    EXPECT_EQ(message(tessera_pipeline_set_threads(pipeline_, "pre", 2)), gone);
    EXPECT_FALSE(tessera_stream_wait_for_room(stream_, kForever));
    tessera_stream* other = nullptr;
    EXPECT_EQ(message(tessera_stream_open(pipeline_, &other)), gone);
    EXPECT_EQ(other, nullptr);
    tessera_stream_wait_until_done(stream_);
    tessera_pipeline_wait_until_done(pipeline_);
    tessera_job_release(job);
    TearDown();
    _exit(HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  tessera_job_release(job);
}

// 240 bytes in, and as many out: 2,000 ns and 15 ns each, at 1.4 GHz 2,821 cycles.
constexpr std::int64_t kTransferCycles = 2 * 2'821;

TEST(CInterfaceFunctions, LoadingEndsAtTheDeadline) {
  tessera_load_options load = {.size = sizeof load};
  tessera_network* network = nullptr;
  load.deadline_ns = 1;
  EXPECT_EQ(message(tessera_network_load(kRelu, &load, &network)),
            "the deadline passed in the pass 'infer', at its begin; give it more time");
  load.deadline_ns = -1;
  EXPECT_EQ(message(tessera_network_load(kRelu, &load, &network)),
            "deadline_ns is -1, allowed is 0 (none) and more");
  load.deadline_ns = INT64_MAX;
  EXPECT_EQ(message(tessera_network_load(kRelu, &load, &network)), "");
  tessera_network_release(network);
}

TEST(CInterfaceFunctions, OneDeviceAppearsAsSeveral) {
  tessera_load_options load = {.size = sizeof load};
  load.region_share = 0.5;
  tessera_network* network = nullptr;
  ASSERT_EQ(message(tessera_network_load(kRelu, &load, &network)), "");
  tessera_device_options device = {.size = sizeof device, .kind = TESSERA_SIM};
  device.virtual_functions = 17;
  tessera_runtime_options options = {.size = sizeof options, .devices = &device};
  options.device_count = 1;
  tessera_runtime* runtime = nullptr;
  EXPECT_EQ(message(tessera_runtime_open(&options, &runtime)),
            "device 'sim0': 17 virtual functions; allowed 1 to 16");
  device.virtual_functions = 2;
  ASSERT_EQ(message(tessera_runtime_open(&options, &runtime)), "");
  tessera_model* model = nullptr;
  const char* const second[] = {"sim0.1"};
  ASSERT_EQ(message(tessera_model_load(runtime, network, second, 1, &model)), "");
  tessera_pipeline* pipeline = nullptr;
  ASSERT_EQ(message(tessera_pipeline_open(runtime, model, nullptr, &pipeline)), "");
  tessera_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_stream_open(pipeline, &stream)), "");
  const int64_t dims[] = {3, 4, 5};
  const std::vector<float> values(60, 2.0F);
  const tessera_tensor input = {TESSERA_F32, 3, dims, values.data(), 240};
  tessera_job* job = nullptr;
  ASSERT_EQ(message(tessera_submit(stream, &input, 1, nullptr, &job)), "");
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  EXPECT_STREQ(tessera_result_device(result), "sim0.1");
  EXPECT_GT(tessera_result_cycles(result), 0);
  EXPECT_EQ(tessera_result_host_cycles(result), 0);
  EXPECT_EQ(tessera_result_transfer_cycles(result), kTransferCycles);
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime, pipeline, &statistics)), "");
  tessera_device_statistics of = {.size = sizeof of};
  ASSERT_EQ(message(tessera_statistics_device(statistics, 1, &of)), "");
  EXPECT_STREQ(of.name, "sim0.1");
  EXPECT_EQ(of.functions, 2);
  EXPECT_EQ(of.joint_runs, 0);
  EXPECT_EQ(of.runs, 1);
  tessera_statistics_release(statistics);
  tessera_result_release(result);
  tessera_job_release(job);
  tessera_stream_release(stream);
  tessera_pipeline_release(pipeline);
  tessera_model_release(model);
  tessera_runtime_release(runtime);
  tessera_network_release(network);
}

TEST(CInterfaceShared, NetworksOnOneCoreGiveTheirOwnResults) {
  tessera_load_options load = {.size = sizeof load};
  load.region_share = 0.5;
  tessera_network* network = nullptr;
  ASSERT_EQ(message(tessera_network_load(kRelu, &load, &network)), "");
  const tessera_shared_network networks[] = {
      {.size = sizeof networks[0], .network = network},
      {.size = sizeof networks[0], .network = network, .priority = 5, .arrival_us = 1}};
  tessera_shared_session* session = nullptr;
  ASSERT_EQ(message(tessera_shared_session_open(networks, 2, nullptr, &session)), "");
  const int64_t dims[] = {3, 4, 5};
  std::vector<float> first(60, 2.0F), second(60, -1.0F);
  const tessera_tensor tensors[] = {{TESSERA_F32, 3, dims, first.data(), 240},
                                    {TESSERA_F32, 3, dims, second.data(), 240}};
  const tessera_run runs[] = {{&tensors[0], 1}, {&tensors[1], 1}};
  tessera_shared_result* result = nullptr;
  EXPECT_EQ(message(tessera_shared_session_run(session, runs, 1, &result)),
            "inputs of 1 networks, the session has 2");
  ASSERT_EQ(message(tessera_shared_session_run(session, runs, 2, &result)), "");
  for (size_t n = 0; n < 2; ++n) {
    EXPECT_EQ(tessera_shared_result_status(result, n), nullptr);
    ASSERT_EQ(tessera_shared_result_output_count(result, n), 1U);
    const tessera_tensor output = tessera_shared_result_output(result, n, 0);
    ASSERT_EQ(output.bytes, 240U);
    const auto* const values = static_cast<const float*>(output.data);
    EXPECT_EQ(std::vector<float>(values, values + 60),
              std::vector<float>(60, n == 0 ? 2.0F : 0.0F));
    EXPECT_GT(tessera_shared_result_end(result, n), tessera_shared_result_arrival(result, n));
  }
  EXPECT_EQ(tessera_shared_result_arrival(result, 1), 1400);  // cycles of 1.4 GHz
  EXPECT_EQ(tessera_shared_result_host_cycles(result, 1), 0);
  EXPECT_EQ(tessera_shared_result_transfer_cycles(result, 1), kTransferCycles);
  EXPECT_EQ(tessera_shared_result_cycles(result),
            std::max(tessera_shared_result_end(result, 0), tessera_shared_result_end(result, 1)));
  EXPECT_EQ(message(tessera_shared_result_status(result, 2)), "network 2 of 2");
  tessera_shared_result_release(result);
  tessera_shared_session_release(session);
  tessera_network_release(network);
}

TEST(CInterfaceOptions, ShapesAndConstantsReachTheModel) {
  // Not its name: the error says what the model's inputs are called.
  const int64_t dims[] = {3, 4, 5};
  const tessera_named_shape shape = {"no_such_input", 3, dims};
  tessera_load_options options = {.size = sizeof options};
  options.shapes = &shape;
  options.shape_count = 1;
  tessera_network* network = nullptr;
  EXPECT_NE(message(tessera_network_load(kRelu, &options, &network)).find("no_such_input"),
            std::string::npos);
  const float value = 1;
  const tessera_named_tensor constant = {"x", {TESSERA_F32, 0, nullptr, &value, 3}};
  options = {.size = sizeof options};
  options.constants = &constant;
  options.constant_count = 1;
  EXPECT_EQ(message(tessera_network_load(kRelu, &options, &network)),
            "constant 'x' has 3 bytes; its shape needs 4");
}

TEST(CInterfaceOptions, NullIsGivenBackInSilence) {
  tessera_error_release(nullptr);
  tessera_network_release(nullptr);
  tessera_runtime_release(nullptr);
  tessera_model_release(nullptr);
  tessera_pipeline_release(nullptr);
  tessera_stream_release(nullptr);
  tessera_job_release(nullptr);
  tessera_result_release(nullptr);
  tessera_statistics_release(nullptr);
}

// Two tenants of a card of the architecture that the network is compiled for, as devices of a runtime.
TEST(CCard, TenantsAreDevices) {
  const tessera_load_options load = {.size = sizeof load, .arch = "cloud16"};
  tessera_network* network = nullptr;
  ASSERT_EQ(message(tessera_network_load(kRelu, &load, &network)), "");
  tessera_card* card = nullptr;
  ASSERT_EQ(message(tessera_card_open(nullptr, 0, &card)), "");
  const int numbers[] = {2, 3};
  const tessera_processor_options own = {
      .size = sizeof own, .name = "own", .core_numbers = numbers, .core_count = 2, .weight = 2};
  tessera_processor *first = nullptr, *second = nullptr, *third = nullptr;
  ASSERT_EQ(message(tessera_card_take(card, &own, &first)), "");
  ASSERT_EQ(message(tessera_card_take(card, nullptr, &second)), "");
  EXPECT_NE(message(tessera_card_take(card, &own, &third)).find("tenant 'own'"), std::string::npos);
  EXPECT_EQ(third, nullptr);
  const tessera_device_options devices[] = {
      {.size = sizeof devices[0], .kind = TESSERA_SIM, .processor = first},
      {.size = sizeof devices[0], .kind = TESSERA_SIM, .processor = second}};
  const tessera_runtime_options options = {
      .size = sizeof options, .devices = devices, .device_count = 2};
  tessera_runtime* runtime = nullptr;
  ASSERT_EQ(message(tessera_runtime_open(&options, &runtime)), "");
  tessera_model* model = nullptr;
  ASSERT_EQ(message(tessera_model_load(runtime, network, nullptr, 0, &model)), "");
  tessera_pipeline* pipeline = nullptr;
  ASSERT_EQ(message(tessera_pipeline_open(runtime, model, nullptr, &pipeline)), "");
  tessera_stream* stream = nullptr;
  ASSERT_EQ(message(tessera_stream_open(pipeline, &stream)), "");
  const std::vector<float> values(60, -1.5F);
  const int64_t dims[] = {3, 4, 5};
  const tessera_tensor input = {TESSERA_F32, 3, dims, values.data(), 60 * sizeof(float)};
  for (int i = 0; i < 4; ++i) {
    tessera_job* job = nullptr;
    ASSERT_EQ(message(tessera_submit(stream, &input, 1, nullptr, &job)), "");
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
    EXPECT_EQ(*static_cast<const float*>(tessera_result_output(result, 0).data), 0.0F);
    tessera_result_release(result);
    tessera_job_release(job);
  }
  ASSERT_EQ(message(tessera_processor_resize(first, 1)), "");
  const int moved[] = {9};
  ASSERT_EQ(message(tessera_processor_move(first, moved, 1)), "");
  int cores[2] = {-1, -1};
  size_t count = 0;
  ASSERT_EQ(message(tessera_processor_cores(first, cores, 2, &count)), "");
  EXPECT_EQ(count, 1U);
  EXPECT_EQ(cores[0], 9);
  EXPECT_EQ(cores[1], -1);
  tessera_processor_status status = {.size = sizeof status};
  ASSERT_EQ(message(tessera_processor_status_get(first, &status)), "");
  EXPECT_EQ(status.cores, 1);
  EXPECT_EQ(status.weight, 2);
  EXPECT_EQ(status.changes, 2);
  EXPECT_GT(status.cleared_cycles, 0);
  EXPECT_NE(message(tessera_processor_resize(first, 17)).find("allowed 0 (none) to 16"),
            std::string::npos);
  EXPECT_EQ(message(tessera_card_take(card, nullptr, nullptr)), "processor is NULL");
  EXPECT_EQ(message(tessera_processor_move(first, nullptr, 2)), "core_numbers is NULL");
  // In any order: the devices keep what they are on.
  tessera_card_release(card);
  tessera_processor_release(first);
  tessera_processor_release(second);
  tessera_stream_release(stream);
  tessera_pipeline_release(pipeline);
  tessera_model_release(model);
  tessera_network_release(network);
  tessera_runtime_release(runtime);
}

// A card of a device's own: its cores share each task, however layers are cut.
TEST(CCard, CoresOfADevice) {
  const auto open = [](int cores, const char* split) {
    const tessera_device_options device = {.size = sizeof device,
                                           .kind = TESSERA_SIM,
                                           .arch = "cloud16",
                                           .cores = cores,
                                           .split = split};
    const tessera_runtime_options options = {
        .size = sizeof options, .devices = &device, .device_count = 1};
    tessera_runtime* runtime = nullptr;
    const std::string found = message(tessera_runtime_open(&options, &runtime));
    tessera_runtime_release(runtime);
    return found;
  };
  EXPECT_EQ(open(4, "oc"), "");
  EXPECT_EQ(open(16, nullptr), "");
  EXPECT_NE(open(4, "columns").find("split 'columns' is not known; allowed: auto, w, oc"),
            std::string::npos);
  EXPECT_NE(open(17, nullptr).find("17 cores"), std::string::npos) << open(17, nullptr);
}

}  // namespace
