// Pipelines of the application's own stages in C: several models and devices, what a stage may do
// with a task, what goes wrong in it, and what is released when.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "c/handles.h"
#include "networks.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

constexpr int64_t kForever = -1;
constexpr size_t kStage = sizeof(tessera_stage_options);

// Counts what is released.
void count_release(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

// The bands of the detector's map whose mean is above that of all, each with the input's first row
// in it: what the recogniser gets.
std::vector<Tensor> bands(const Tensor& map, const TensorDescription& wanted) {
  const auto bits = map.as<const std::uint16_t>();
  std::vector<Tensor> found;
  const auto count = static_cast<std::size_t>(element_count(wanted.dims));
  for (std::size_t first = 0; first + count <= bits.size(); first += count) {
    if (bits[first] % 3 == 0) continue;  // any decision that depends on the bits
    Tensor tensor = Tensor::zeros(wanted.format, wanted.dims);
    std::memcpy(tensor.bytes.data(), bits.data() + first, tensor.bytes.size());
    found.push_back(std::move(tensor));
  }
  return found;
}

// As `bands`, in C.
tessera_error* crop(void* context, tessera_task* task) {
  const auto* const next = static_cast<const tessera_network*>(context);
  const tessera_tensor_description wanted = tessera_network_input(next, 0);
  size_t bytes = tessera_format_bytes(wanted.format);
  for (size_t i = 0; i < wanted.rank; ++i) bytes *= static_cast<size_t>(wanted.dims[i]);
  const tessera_tensor map = tessera_task_tensor(task, 0, 0);
  std::vector<tessera_tensor> tensors;
  for (size_t first = 0; first + bytes <= map.bytes; first += bytes) {
    const char* const at = static_cast<const char*>(map.data) + first;
    uint16_t bits = 0;
    std::memcpy(&bits, at, sizeof bits);
    if (bits % 3 != 0) tensors.push_back({wanted.format, wanted.rank, wanted.dims, at, bytes});
  }
  std::vector<tessera_run> runs;
  for (const tessera_tensor& tensor : tensors) runs.push_back({&tensor, 1});
  return tessera_task_set_runs(task, runs.data(), runs.size());
}

// A detector on one device, a recogniser on another.
class Stages : public ::testing::Test {
 protected:
  void SetUp() override {
    const tessera_device_options devices[] = {
        {.size = sizeof devices[0],
         .kind = TESSERA_HOST,
         .name = "fast",
         .kernels = 2,
         .threads = 2},
        {.size = sizeof devices[0], .kind = TESSERA_SIM, .name = "exact"}};
    const tessera_runtime_options options = {
        .size = sizeof options, .devices = devices, .device_count = 2};
    ASSERT_EQ(message(tessera_runtime_open(&options, &runtime_)), "");
    const char* const fast = "fast";
    const char* const exact = "exact";
    ASSERT_EQ(message(tessera_model_load(runtime_, &detector_, &fast, 1, &first_)), "");
    ASSERT_EQ(message(tessera_model_load(runtime_, &recogniser_, &exact, 1, &second_)), "");
  }
  void TearDown() override {
    tessera_model_release(first_);
    tessera_model_release(second_);
    tessera_runtime_release(runtime_);
  }

  std::vector<tessera_stage_options> two_models(tessera_stage_function between, void* context) {
    return {{.size = kStage, .kind = TESSERA_STAGE_PRE, .model = first_},
            {.size = kStage, .kind = TESSERA_STAGE_EXECUTE, .name = "detect", .model = first_},
            {.size = kStage,
             .kind = TESSERA_STAGE_HOST,
             .name = "crop",
             .function = between,
             .context = context,
             .threads = 2},
            {.size = kStage, .kind = TESSERA_STAGE_EXECUTE, .name = "recognise", .model = second_},
            {.size = kStage, .kind = TESSERA_STAGE_POST, .model = second_}};
  }
  void open(const std::vector<tessera_stage_options>& stages) {
    const tessera_pipeline_options options = {
        .size = sizeof options, .stages = stages.data(), .stage_count = stages.size()};
    ASSERT_EQ(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline_)), "");
    ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  }
  void close() {
    tessera_pipeline_release(std::exchange(pipeline_, nullptr));
    tessera_stream_release(std::exchange(stream_, nullptr));
  }
  // What C++ sessions on the reference device make of it.
  std::vector<std::vector<Tensor>> expected(const Tensor& input) const {
    Session detect = Session::open(detector_.network, {.device = DeviceKind::kRef}).value();
    Session recognise = Session::open(recogniser_.network, {.device = DeviceKind::kRef}).value();
    std::vector<std::vector<Tensor>> runs;
    const Tensor map = detect.run({input})->outputs[0];
    for (const Tensor& band : bands(map, recogniser_.network.inputs()[0])) {
      runs.push_back(recognise.run({band})->outputs);
    }
    return runs;
  }

  tessera_network detector_{detector()}, recogniser_{recogniser()};
  tessera_runtime* runtime_ = nullptr;
  tessera_model *first_ = nullptr, *second_ = nullptr;
  tessera_pipeline* pipeline_ = nullptr;
  tessera_stream* stream_ = nullptr;
};

TEST_F(Stages, AFunctionBetweenTwoModelsOnTwoDevicesGivesTheBitsOfSessions) {
  open(two_models(crop, &recogniser_));
  std::vector<tessera_job*> jobs(12);
  std::size_t runs_of_all = 0;
  for (unsigned i = 0; i < jobs.size(); ++i) {
    const Tensor input = some_input(detector_.network, i);
    const tessera_tensor tensor = view(input);
    ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, nullptr, &jobs[i])), "");
  }
  for (unsigned i = 0; i < jobs.size(); ++i) {
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(jobs[i], kForever, &result)), "");
    const auto wanted = expected(some_input(detector_.network, i));
    ASSERT_EQ(tessera_result_run_count(result), wanted.size());
    for (std::size_t run = 0; run < wanted.size(); ++run) {
      ASSERT_EQ(tessera_result_run_output_count(result, run), 1U);
      const tessera_tensor found = tessera_result_run_output(result, run, 0);
      ASSERT_EQ(found.bytes, wanted[run][0].bytes.size());
      EXPECT_EQ(std::memcmp(found.data, wanted[run][0].bytes.data(), found.bytes), 0) << i;
    }
    runs_of_all += wanted.size();
    EXPECT_EQ(tessera_result_run_output(result, wanted.size(), 0).data, nullptr);
    EXPECT_EQ(tessera_result_sequence(result), i);
    EXPECT_STREQ(tessera_result_device(result), wanted.empty() ? "fast" : "exact");
    tessera_stage_times times = {.size = sizeof times};
    EXPECT_EQ(message(tessera_result_stage_times(result, 1, &times)), "");
    EXPECT_GT(times.busy_ns, 0);
    EXPECT_EQ(message(tessera_result_stage_times(result, 99, &times)), "");
    EXPECT_EQ(times.busy_ns, 0);
    tessera_result_release(result);
    tessera_job_release(jobs[i]);
  }
  // The decision goes both ways, or the test would show little.
  const std::size_t most = 4 * jobs.size();
  EXPECT_TRUE(runs_of_all > 0 && runs_of_all < most) << runs_of_all;
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
  ASSERT_EQ(tessera_statistics_stage_count(statistics), 5U);
  tessera_stage_statistics stages[5];
  for (std::size_t i = 0; i < 5; ++i) {
    stages[i].size = sizeof stages[i];
    ASSERT_EQ(message(tessera_statistics_stage(statistics, i, &stages[i])), "");
  }
  EXPECT_STREQ(stages[2].name, "crop");
  EXPECT_EQ(stages[2].kind, TESSERA_STAGE_HOST);
  EXPECT_EQ(stages[3].kind, TESSERA_STAGE_EXECUTE);
  EXPECT_EQ(stages[2].threads, 2);
  EXPECT_GE(stages[1].thread_ns, stages[1].busy_ns);
  tessera_device_statistics devices[2];
  for (std::size_t i = 0; i < 2; ++i) {
    devices[i].size = sizeof devices[i];
    ASSERT_EQ(message(tessera_statistics_device(statistics, i, &devices[i])), "");
  }
  EXPECT_EQ(devices[0].runs, 12);
  EXPECT_EQ(devices[1].runs, static_cast<int64_t>(runs_of_all));
  EXPECT_EQ(devices[1].late_runs, 0);
  EXPECT_EQ(devices[0].kernel_busy_ns[0] + devices[0].kernel_busy_ns[1], devices[0].busy_ns);
  tessera_statistics_release(statistics);
  close();
}

TEST_F(Stages, AnErrorEndsItsOwnTaskWithItsTextAndPlace) {
  open(two_models(
      [](void*, tessera_task* task) -> tessera_error* {
        if (tessera_task_sequence(task) % 2 == 0) return tessera_task_set_runs(task, nullptr, 0);
        return tessera_error_create(TESSERA_UNSUPPORTED, "no line on this page");
      },
      nullptr));
  const Tensor input = some_input(detector_.network, 1);
  const tessera_tensor tensor = view(input);
  for (uint64_t i = 0; i < 6; ++i) {
    tessera_job* job = nullptr;
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, nullptr, &job)), "");
    tessera_error* const error = tessera_job_wait(job, kForever, &result);
    if (i % 2 == 0) {
      EXPECT_EQ(message(error), "");
      EXPECT_EQ(tessera_result_run_count(result), 0U);
      EXPECT_EQ(tessera_result_output_count(result), 0U);
      EXPECT_EQ(tessera_result_output(result, 0).data, nullptr);
    } else {
      ASSERT_NE(error, nullptr);
      EXPECT_STREQ(tessera_error_message(error), "no line on this page");
      EXPECT_EQ(tessera_error_code(error), TESSERA_UNSUPPORTED);
      EXPECT_EQ(tessera_error_failure(error), TESSERA_FAILURE_ERROR);
      EXPECT_STREQ(tessera_error_stage(error), "crop");
      EXPECT_EQ(tessera_error_sequence(error), i);
      EXPECT_EQ(tessera_error_task(error), tessera_job_id(job));
      tessera_error_release(error);
    }
    tessera_result_release(result);
    tessera_job_release(job);
  }
  close();
}

TEST_F(Stages, ATaskShowsItsRunsItsPayloadAndItsPlace) {
  struct Seen {
    std::vector<size_t> runs, tensors;
    void* payload = nullptr;
    uint32_t stream = 99;
  } seen;
  const std::vector<tessera_stage_options> stages = {
      {.size = kStage,
       .name = "look",
       .function = [](void* context, tessera_task* task) -> tessera_error* {
         auto* const seen = static_cast<Seen*>(context);
         seen->runs.push_back(tessera_task_run_count(task));
         seen->tensors.push_back(tessera_task_tensor_count(task, 0));
         EXPECT_EQ(tessera_task_tensor_count(task, 99), 0U);
         EXPECT_EQ(tessera_task_tensor(task, 99, 0).data, nullptr);
         EXPECT_EQ(tessera_task_data(task, 0, 99), nullptr);
         seen->payload = tessera_task_payload(task);
         seen->stream = tessera_task_stream(task);
         // In place, and the same tensors the other way round.
         auto* const first = static_cast<float*>(tessera_task_data(task, 0, 0));
         first[0] += 1;
         const tessera_tensor both[] = {tessera_task_tensor(task, 0, 1),
                                        tessera_task_tensor(task, 0, 0)};
         const tessera_run run = {both, 2};
         const tessera_run twice[] = {run, run};
         return tessera_task_set_runs(task, twice, 2);
       },
       .context = &seen},
      {.size = kStage, .name = "never", .function = [](void*, tessera_task*) -> tessera_error* {
         return tessera_error_create(TESSERA_INTERNAL, "not passed by");
       }}};
  open(stages);
  const float a[] = {1, 2}, b[] = {3};
  const int64_t two = 2, one = 1;
  const tessera_tensor inputs[] = {{TESSERA_F32, 1, &two, a, sizeof a},
                                   {TESSERA_F32, 1, &one, b, sizeof b}};
  std::atomic<int> released{0};
  const char* const skipped = "never";
  const tessera_submit_options options = {.size = sizeof options,
                                          .payload = &released,
                                          .release_payload = count_release,
                                          .skipped_stages = &skipped,
                                          .skipped_stage_count = 1};
  tessera_job* job = nullptr;
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_submit(stream_, inputs, 2, &options, &job)), "");
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  EXPECT_EQ(seen.runs, std::vector<size_t>{1});
  EXPECT_EQ(seen.tensors, std::vector<size_t>{2});
  EXPECT_EQ(seen.payload, &released);
  EXPECT_EQ(seen.stream, tessera_stream_id(stream_));
  ASSERT_EQ(tessera_result_run_count(result), 2U);
  const tessera_tensor found = tessera_result_run_output(result, 1, 1);
  EXPECT_EQ(static_cast<const float*>(found.data)[0], 2);
  EXPECT_EQ(static_cast<const float*>(tessera_result_run_output(result, 0, 0).data)[0], 3);
  EXPECT_EQ(tessera_result_payload(result), &released);
  EXPECT_EQ(released, 0);
  tessera_result_release(result);
  EXPECT_EQ(released, 1);
  tessera_job_release(job);
  close();
}

TEST_F(Stages, SeveralRunsAndBatchesGoInAtOnce) {
  ASSERT_EQ(message(tessera_pipeline_open(runtime_, second_, nullptr, &pipeline_)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  std::vector<Tensor> inputs;
  for (unsigned i = 0; i < 5; ++i) inputs.push_back(some_input(recogniser_.network, i));
  std::vector<tessera_tensor> views;
  for (const Tensor& input : inputs) views.push_back(view(input));
  std::vector<tessera_run> runs;
  for (const tessera_tensor& tensor : views) runs.push_back({&tensor, 1});
  Session session = Session::open(recogniser_.network, {.device = DeviceKind::kRef}).value();
  tessera_job* all = nullptr;
  ASSERT_EQ(message(tessera_submit_runs(stream_, runs.data(), runs.size(), nullptr, &all)), "");
  tessera_job* each[5];
  ASSERT_EQ(message(tessera_submit_batch(stream_, runs.data(), runs.size(), nullptr, each)), "");
  tessera_result* of_all = nullptr;
  ASSERT_EQ(message(tessera_job_wait(all, kForever, &of_all)), "");
  ASSERT_EQ(tessera_result_run_count(of_all), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    const std::vector<std::byte> wanted = session.run({inputs[i]})->outputs[0].bytes;
    tessera_result* result = nullptr;
    ASSERT_EQ(message(tessera_job_wait(each[i], kForever, &result)), "");
    EXPECT_EQ(std::memcmp(tessera_result_output(result, 0).data, wanted.data(), wanted.size()), 0);
    EXPECT_EQ(
        std::memcmp(tessera_result_run_output(of_all, i, 0).data, wanted.data(), wanted.size()), 0);
    tessera_result_release(result);
    tessera_job_release(each[i]);
  }
  tessera_result_release(of_all);
  tessera_job_release(all);
  // One that is refused: those before it go on.
  runs[1].tensors = nullptr;
  EXPECT_EQ(message(tessera_submit_batch(stream_, runs.data(), 3, nullptr, each)),
            "task 1: inputs is NULL");
  EXPECT_NE(each[0], nullptr);
  EXPECT_EQ(each[1], nullptr);
  EXPECT_EQ(each[2], nullptr);
  tessera_job_release(each[0]);
  close();
}

// Handles go while tasks are inside: all of them are finished, and everything is released.
TEST_F(Stages, WhatNobodyHoldsAnyMoreIsFinishedAndGivenBack) {
  struct Counts {
    std::atomic<int> stages{0}, callbacks{0}, contexts{0}, payloads{0};
  } counts;
  for (int round = 0; round < 10; ++round) {
    auto stages = two_models(crop, &recogniser_);
    stages.push_back(
        {.size = kStage,
         .name = "count",
         .function = [](void* context, tessera_task*) -> tessera_error* {
           ++*static_cast<std::atomic<int>*>(context);
           return nullptr;
         },
         .context = &counts.stages,
         .release_context = [](void* context) { ++reinterpret_cast<Counts*>(context)->contexts; }});
    static_assert(offsetof(Counts, stages) == 0);
    open(stages);
    const Tensor input = some_input(detector_.network, 3);
    const tessera_tensor tensor = view(input);
    tessera_submit_options options = {.size = sizeof options};
    options.callback = [](void* context, tessera_result* result, tessera_error* error) {
      EXPECT_EQ(message(error), "");
      tessera_result_release(result);
      ++static_cast<Counts*>(context)->callbacks;
    };
    options.context = &counts;
    options.payload = &counts.payloads;
    options.release_payload = count_release;
    for (int i = 0; i < 8; ++i) {
      ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, &options, nullptr)), "");
    }
    close();  // waits
    EXPECT_EQ(counts.stages, 8 * (round + 1));
    EXPECT_EQ(counts.callbacks, 8 * (round + 1));
    EXPECT_EQ(counts.payloads, 8 * (round + 1));
    EXPECT_EQ(counts.contexts, round + 1);
  }
}

TEST_F(Stages, TheLastHandleMayBeGivenBackByAStage) {
  struct Held {
    tessera_pipeline* pipeline = nullptr;
    tessera_stream* stream = nullptr;
    std::atomic<bool> go{false}, gone{false};
  } held;
  const std::vector<tessera_stage_options> stages = {
      {.size = kStage,
       .name = "drop",
       .function = [](void* context, tessera_task*) -> tessera_error* {
         auto* const held = static_cast<Held*>(context);
         held->go.wait(false);
         tessera_stream_release(std::exchange(held->stream, nullptr));
         tessera_pipeline_release(std::exchange(held->pipeline, nullptr));
         return nullptr;
       },
       .context = &held,
       .release_context =
           [](void* context) {
             auto& gone = static_cast<Held*>(context)->gone;
             gone = true;
             gone.notify_all();
           }}};
  open(stages);
  tessera_job* job = nullptr;
  ASSERT_EQ(message(tessera_submit(stream_, nullptr, 0, nullptr, &job)), "");
  held.pipeline = std::exchange(pipeline_, nullptr);
  held.stream = std::exchange(stream_, nullptr);
  held.go = true;
  held.go.notify_all();
  tessera_result* result = nullptr;
  EXPECT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  held.gone.wait(false);
  tessera_result_release(result);
  tessera_job_release(job);
}

// Whatever is wrong with the call, what the options hold is released once.
TEST_F(Stages, WhatIsRefusedIsGivenBackOnce) {
  std::atomic<int> released{0};
  int expected = 0;
  tessera_stage_options stage = {
      .size = sizeof stage,
      .name = "s",
      .function = [](void*, tessera_task*) -> tessera_error* { return nullptr; },
      .context = &released,
      .release_context = count_release};
  tessera_pipeline_options options = {.size = sizeof options, .stages = &stage, .stage_count = 1};
  options.tuning_context = &released;
  options.release_tuning_context = count_release;
  const auto refused = [&](tessera_runtime* runtime, const std::string& why) {
    EXPECT_EQ(message(tessera_pipeline_open(runtime, nullptr, &options, &pipeline_)), why);
    EXPECT_EQ(pipeline_, nullptr);
    expected += 2;
    EXPECT_EQ(released, expected);
  };
  refused(nullptr, "runtime is NULL");
  stage.kind = static_cast<tessera_stage_kind>(9);
  refused(runtime_, "stage kind 9 is none of TESSERA_STAGE_HOST, _PRE, _EXECUTE, _POST, _PICTURE");
  stage.kind = TESSERA_STAGE_EXECUTE;
  refused(runtime_, "stage 's': a host stage has a function, and no other stage has one");
  stage.kind = TESSERA_STAGE_PICTURE;
  refused(runtime_, "stage 's': a picture stage belongs to a model; model is NULL");
  stage.kind = TESSERA_STAGE_HOST;
  tessera_debug_options debug = {.size = sizeof debug, .mode = static_cast<tessera_debug_mode>(7)};
  options.debug = &debug;
  refused(runtime_, "debug mode 7 is none of TESSERA_DEBUG_DEVICE, _HOST, _BOTH");
  debug = {sizeof debug, TESSERA_DEBUG_BOTH, -1};
  refused(runtime_, "debugging of one task in -1; allowed 1 and more, and 0 for each");
  options.debug = nullptr;
  stage.device_count = 1;
  refused(runtime_, "stage 's': devices is NULL");
  stage.device_count = 0;
  options.stages = nullptr;
  EXPECT_EQ(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline_)),
            "stages is NULL");
  options.stage_count = 0;
  EXPECT_EQ(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline_)),
            "model, without which a pipeline needs stages, is NULL");
  expected += 2;
  EXPECT_EQ(released, expected);

  ASSERT_EQ(message(tessera_pipeline_open(runtime_, second_, nullptr, &pipeline_)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  const char* const skipped = "nowhere";
  const tessera_submit_options submit = {.size = sizeof submit,
                                         .payload = &released,
                                         .release_payload = count_release,
                                         .skipped_stages = &skipped,
                                         .skipped_stage_count = 1};
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_submit(stream_, nullptr, 0, &submit, &job)),
            "there is no stage 'nowhere'; there are pre, execute, post");
  EXPECT_EQ(released, ++expected);
  EXPECT_EQ(message(tessera_submit(nullptr, nullptr, 0, &submit, &job)), "stream is NULL");
  EXPECT_EQ(released, ++expected);
  EXPECT_EQ(message(tessera_submit_layer(stream_, nullptr, nullptr, &submit, &job)),
            "layers is NULL");
  EXPECT_EQ(released, ++expected);
  close();
}

TEST_F(Stages, DebuggingAndTuningChangeWhileTasksFlow) {
  std::atomic<int> said{0};
  std::vector<tessera_stage_options> stages = {
      {.size = kStage, .name = "slow", .function = [](void*, tessera_task*) -> tessera_error* {
         std::this_thread::sleep_for(std::chrono::milliseconds(2));
         return nullptr;
       }}};
  stages.push_back({.size = kStage, .kind = TESSERA_STAGE_EXECUTE, .model = second_});
  tessera_pipeline_options options = {
      .size = sizeof options, .stages = stages.data(), .stage_count = 2};
  options.tune = true;
  options.tuning_log = [](void* context, const char* text) {
    // Which of the two is slower is for the machine to say: a sanitizer makes it the second.
    const std::string change = text;
    EXPECT_TRUE(change.find("slow") != change.npos || change.find("execute") != change.npos)
        << change;
    ++*static_cast<std::atomic<int>*>(context);
  };
  options.tuning_context = &said;
  ASSERT_EQ(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline_)), "");
  ASSERT_EQ(message(tessera_stream_open(pipeline_, &stream_)), "");
  const tessera_debug_options both = {sizeof both, TESSERA_DEBUG_BOTH, 2};
  ASSERT_EQ(message(tessera_pipeline_set_debug(pipeline_, &both)), "");
  const Tensor input = some_input(recogniser_.network, 1);
  const tessera_tensor tensor = view(input);
  tessera_submit_options submit = {.size = sizeof submit};
  submit.callback = [](void*, tessera_result* result, tessera_error* error) {
    EXPECT_EQ(message(error), "");
    tessera_result_release(result);
  };
  int64_t tasks = 0;
  for (; said == 0 && tasks < 20'000; ++tasks) {
    ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, &submit, nullptr)), "");
  }
  EXPECT_GT(said, 0);
  tessera_stream_wait_until_done(stream_);
  tessera_pipeline_set_tuning(pipeline_, false);
  tessera_statistics* statistics = nullptr;
  ASSERT_EQ(message(tessera_statistics_take(runtime_, pipeline_, &statistics)), "");
  tessera_task_statistics figures = {.size = sizeof figures};
  ASSERT_EQ(message(tessera_statistics_tasks(statistics, &figures)), "");
  EXPECT_EQ(figures.compared, (tasks + 1) / 2);
  EXPECT_EQ(figures.mismatches, 0);
  EXPECT_FALSE(figures.tuning);
  EXPECT_EQ(figures.debug, TESSERA_DEBUG_BOTH);
  tessera_statistics_release(statistics);
  const tessera_debug_options host = {sizeof host, TESSERA_DEBUG_HOST, 0};
  ASSERT_EQ(message(tessera_pipeline_set_debug(pipeline_, &host)), "");
  tessera_job* job = nullptr;
  tessera_result* result = nullptr;
  ASSERT_EQ(message(tessera_submit(stream_, &tensor, 1, nullptr, &job)), "");
  ASSERT_EQ(message(tessera_job_wait(job, kForever, &result)), "");
  EXPECT_STREQ(tessera_result_device(result), "debug");
  tessera_result_release(result);
  tessera_job_release(job);
  close();
}

}  // namespace
}  // namespace tessera::c_test
