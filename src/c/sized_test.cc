// Structures carry their size: callers that were compiled against an older or a newer header.
#include "c/sized.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c {
namespace {

constexpr const char* kRelu = "/usr/share/libonnx-testdata/data/node/test_relu/model.onnx";

std::string message(tessera_error* error) {
  const std::string text = tessera_error_message(error);
  tessera_error_release(error);
  return text;
}

// What a later version of a structure may look like.
template <typename Structure>
struct Newer {
  Structure known = {};
  std::uint64_t newer = 0;
};

class SizedStructures : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(message(tessera_network_load(kRelu, nullptr, &network_)), "");
    ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime_)), "");
    ASSERT_EQ(message(tessera_model_load(runtime_, network_, nullptr, 0, &model_)), "");
    ASSERT_EQ(message(tessera_pipeline_open(runtime_, model_, nullptr, &pipeline_)), "");
    ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  }
  void TearDown() override {
    tessera_stream_release(stream_);
    tessera_pipeline_release(pipeline_);
    tessera_model_release(model_);
    tessera_runtime_release(runtime_);
    tessera_network_release(network_);
  }
  std::string submit(const tessera_submit_options* options) {
    const int64_t dims[] = {3, 4, 5};
    const float values[60] = {};
    const tessera_tensor input = {TESSERA_F32, 3, dims, values, sizeof values};
    tessera_job* job = nullptr;
    std::string error = message(tessera_submit(stream_, &input, 1, options, &job));
    tessera_result* result = nullptr;
    if (error.empty()) error = message(tessera_job_wait(job, -1, &result));
    tessera_result_release(result);
    tessera_job_release(job);
    return error;
  }
  std::string open(const tessera_runtime_options& options) {
    tessera_runtime* runtime = nullptr;
    std::string error = message(tessera_runtime_open(&options, &runtime));
    tessera_runtime_release(runtime);
    return error;
  }

  tessera_network* network_ = nullptr;
  tessera_runtime* runtime_ = nullptr;
  tessera_model* model_ = nullptr;
  tessera_pipeline* pipeline_ = nullptr;
  tessera_stream* stream_ = nullptr;
};

TEST_F(SizedStructures, OfAnOlderCallerTheMissingMembersAreTheDefaults) {
  // Rubbish stands where the older structure ended.
  const char* const rubbish = "no such stage";
  tessera_submit_options older = {.size = offsetof(tessera_submit_options, payload)};
  older.payload = &older;
  older.release_payload = [](void*) { ADD_FAILURE() << "is not the library's to call"; };
  older.skipped_stages = &rubbish;
  older.skipped_stage_count = 1;
  EXPECT_EQ(submit(&older), "");
  // All members are missing.
  older.size = sizeof older.size;
  EXPECT_EQ(submit(&older), "");
}

TEST_F(SizedStructures, OfANewerCallerTheUnknownMembersAreZero) {
  Newer<tessera_submit_options> newer;
  newer.known.size = sizeof newer;
  EXPECT_EQ(submit(&newer.known), "");
  newer.newer = 1;
  const std::string known = std::to_string(sizeof newer.known);
  EXPECT_EQ(submit(&newer.known),
            "tessera_submit_options: size is " + std::to_string(sizeof newer) + ", this library (" +
                tessera_version() + ") knows " + known + " bytes, and byte " + known +
                " is set: a newer member; leave it 0 or take a newer library");
}

TEST_F(SizedStructures, ASizeThatWasForgottenIsAskedFor) {
  tessera_submit_options forgotten = {};
  EXPECT_EQ(submit(&forgotten),
            "tessera_submit_options: size is 0; set it to the structure's: options = {.size = "
            "sizeof options, ...}");
  for (const std::size_t size : {std::size_t{1}, sizeof forgotten - 1, SIZE_MAX - 7}) {
    forgotten.size = size;
    EXPECT_EQ(submit(&forgotten), "tessera_submit_options: size is " + std::to_string(size) +
                                      ", which no version of it has; set it to the structure's: "
                                      "options = {.size = sizeof options, ...}");
  }
}

TEST_F(SizedStructures, WhatAStructureOfWrongSizeHoldsStaysTheCallers) {
  std::atomic<int> released{0};
  const auto release = [](void* counter) { ++*static_cast<std::atomic<int>*>(counter); };
  tessera_submit_options forgotten = {.payload = &released, .release_payload = release};
  EXPECT_NE(submit(&forgotten), "");
  EXPECT_EQ(released, 0);
  forgotten.size = sizeof forgotten;
  EXPECT_EQ(submit(&forgotten), "");
  EXPECT_EQ(released, 1);
}

TEST_F(SizedStructures, EntriesOfAnArrayLieAsFarApartAsTheCallerSays) {
  Newer<tessera_device_options> newer[2];
  for (auto& device : newer) device.known.size = sizeof device;
  newer[0].known.name = "first";
  newer[1].known.name = "second";
  tessera_runtime_options options = {
      .size = sizeof options, .devices = &newer[0].known, .device_count = 2};
  EXPECT_EQ(open(options), "");
  newer[1].known.name = "first";
  EXPECT_EQ(open(options), "device 'first': there are two of this name");
  newer[1].known.size = sizeof newer[1].known;
  EXPECT_EQ(open(options), "devices[1], a tessera_device_options: size is " +
                               std::to_string(sizeof newer[1].known) +
                               ", that of the first entry " + std::to_string(sizeof newer[0]) +
                               "; all entries of an array have one size");
  // An older caller's entries are closer together.
  struct Older {
    size_t size;
    tessera_device_kind kind;
    const char* name;
  };
  const Older older[2] = {{sizeof(Older), TESSERA_HOST, "a"}, {sizeof(Older), TESSERA_SIM, "a"}};
  options.devices = reinterpret_cast<const tessera_device_options*>(older);
  EXPECT_EQ(open(options), "device 'a': there are two of this name");
  options.device_count = SIZE_MAX;
  EXPECT_EQ(open(options), "devices has 18446744073709551615 entries; allowed are at most 64");
}

// Every structure says so, wherever it is taken.
TEST_F(SizedStructures, EveryFunctionChecksIt) {
  const auto asks = [](const std::string& error, const std::string& name) {
    EXPECT_EQ(error, name +
                         ": size is 0; set it to the structure's: options = {.size = sizeof "
                         "options, ...}");
  };
  tessera_network* network = nullptr;
  const tessera_load_options load = {};
  asks(message(tessera_network_load(kRelu, &load, &network)), "tessera_load_options");
  const tessera_shared_network shared = {};
  tessera_shared_session* session = nullptr;
  asks(message(tessera_shared_session_open(&shared, 1, nullptr, &session)),
       "tessera_shared_network");
  asks(open({}), "tessera_runtime_options");
  tessera_pipeline* pipeline = nullptr;
  tessera_pipeline_options options = {};
  asks(message(tessera_pipeline_open(runtime_, model_, &options, &pipeline)),
       "tessera_pipeline_options");
  asks(message(tessera_operations_open(runtime_, &options, &pipeline)), "tessera_pipeline_options");
  options.size = sizeof options;
  tessera_debug_options debug = {};
  options.debug = &debug;
  asks(message(tessera_pipeline_open(runtime_, model_, &options, &pipeline)),
       "tessera_debug_options");
  asks(message(tessera_pipeline_set_debug(pipeline_, &debug)), "tessera_debug_options");
  const tessera_picture_input how = {};
  tessera_stage_options stage = {
      .size = sizeof stage, .kind = TESSERA_STAGE_PICTURE, .model = model_, .picture = &how};
  options = {.size = sizeof options, .stages = &stage, .stage_count = 1};
  asks(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline)),
       "tessera_picture_input");
  stage.size = 0;
  asks(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline)),
       "tessera_stage_options");
  const tessera_live_view_options view = {};
  tessera_live_view* page = nullptr;
  asks(message(tessera_live_view_open(runtime_, &view, &page)), "tessera_live_view_options");
  const tessera_operation_task task = {};
  tessera_job* job = nullptr;
  asks(message(tessera_submit_operation(stream_, &task, nullptr, &job)), "tessera_operation_task");
}

TEST_F(SizedStructures, WhatTheLibraryFillsEndsWhereTheCallersDoes) {
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
  tessera_stage_statistics older = {.size = offsetof(tessera_stage_statistics, tasks)};
  older.tasks = 77;
  ASSERT_EQ(message(tessera_statistics_stage(statistics, 0, &older)), "");
  EXPECT_STREQ(older.name, "pre");
  EXPECT_EQ(older.tasks, 77);
  EXPECT_EQ(older.size, offsetof(tessera_stage_statistics, tasks));
  Newer<tessera_stage_statistics> newer;
  newer.known.size = sizeof newer;
  newer.newer = 77;
  ASSERT_EQ(message(tessera_statistics_stage(statistics, 2, &newer.known)), "");
  EXPECT_STREQ(newer.known.name, "post");
  EXPECT_EQ(newer.newer, 0U);
  EXPECT_EQ(newer.known.size, sizeof newer);
  tessera_task_statistics forgotten = {};
  EXPECT_EQ(message(tessera_statistics_tasks(statistics, &forgotten)),
            "tessera_task_statistics: size is 0; set it to the structure's: options = {.size = "
            "sizeof options, ...}");
  tessera_statistics_release(statistics);
}

}  // namespace
}  // namespace tessera::c
