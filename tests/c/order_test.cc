// The order of a stream's results and the priorities of streams and tasks, in C: behind a stage
// that holds tasks back, so that nothing depends on how fast this machine is.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

#include "networks.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

namespace tessera::c_test {
namespace {

constexpr int64_t kForever = -1;

// A stage that holds the first task of all back, and notes in which order tasks come.
struct Work {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::vector<std::pair<uint32_t, uint64_t>> begun;  // stream and sequence
  std::vector<uint64_t> told;                        // sequences, by callbacks

  void wait_for(std::size_t tasks) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return begun.size() >= tasks; });
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

tessera_error* work(void* context, tessera_task* task) {
  auto& work = *static_cast<Work*>(context);
  std::unique_lock lock(work.mutex);
  work.begun.emplace_back(tessera_task_stream(task), tessera_task_sequence(task));
  work.changed.notify_all();
  if (work.begun.size() == 1) work.changed.wait(lock, [&] { return work.open; });
  return nullptr;
}

void tell(void* context, tessera_result* result, tessera_error* error) {
  EXPECT_EQ(error, nullptr);
  auto& work = *static_cast<Work*>(context);
  {
    const std::lock_guard lock(work.mutex);
    work.told.push_back(tessera_result_sequence(result));
  }
  tessera_result_release(result);
}

class Order : public ::testing::Test {
 protected:
  void open(int threads) {
    ASSERT_EQ(message(tessera_runtime_open(nullptr, &runtime_)), "");
    const tessera_stage_options stage = {.size = sizeof stage,
                                         .kind = TESSERA_STAGE_HOST,
                                         .function = work,
                                         .context = &work_,
                                         .threads = threads,
                                         .capacity = 64,
                                         .batch = 1};
    const tessera_pipeline_options options = {
        .size = sizeof options, .stages = &stage, .stage_count = 1};
    ASSERT_EQ(message(tessera_pipeline_open(runtime_, nullptr, &options, &pipeline_)), "");
  }
  tessera_stream* stream(tessera_stream_order order, int priority) {
    const tessera_stream_options options = {
        .size = sizeof options, .order = order, .priority = priority};
    tessera_stream* stream = nullptr;
    EXPECT_EQ(message(tessera_stream_open_with(pipeline_, &options, &stream)), "");
    return stream;
  }
  tessera_job* submit(tessera_stream* stream, const int* priority = nullptr) {
    const tessera_submit_options options = {
        .size = sizeof options, .callback = tell, .context = &work_, .priority = priority};
    tessera_job* job = nullptr;
    EXPECT_EQ(message(tessera_submit(stream, nullptr, 0, &options, &job)), "");
    return job;
  }
  void TearDown() override {
    tessera_pipeline_release(pipeline_);
    tessera_runtime_release(runtime_);
  }
  // Five tasks, the first of which is held back until the others have been at the stage; what the
  // callbacks get. `meanwhile` gets the jobs of the others before the first goes on.
  std::vector<uint64_t> results_of_five(tessera_stream_order order,
                                        void (*meanwhile)(const std::vector<tessera_job*>&)) {
    open(2);
    tessera_stream* const five = stream(order, 0);
    tessera_job* const first = submit(five);
    work_.wait_for(1);
    std::vector<tessera_job*> others;
    for (int i = 0; i < 4; ++i) others.push_back(submit(five));
    work_.wait_for(5);
    meanwhile(others);
    EXPECT_FALSE(tessera_job_done(first));
    work_.let_go();
    tessera_stream_wait_until_done(five);
    others.push_back(first);
    for (tessera_job* const job : others) tessera_job_release(job);
    tessera_stream_release(five);
    return work_.told;
  }

  Work work_;
  tessera_runtime* runtime_ = nullptr;
  tessera_pipeline* pipeline_ = nullptr;
};

TEST_F(Order, OfSubmissionHoldsResultsBackBehindAnEarlierTask) {
  const auto told = results_of_five(TESSERA_ORDER_SUBMISSION, [](const auto& others) {
    for (const tessera_job* const job : others) EXPECT_FALSE(tessera_job_done(job));
  });
  EXPECT_EQ(told, (std::vector<uint64_t>{0, 1, 2, 3, 4}));
}

TEST_F(Order, OfCompletionGivesEachResultWhenItIsThere) {
  const auto told = results_of_five(TESSERA_ORDER_COMPLETION, [](const auto& others) {
    for (tessera_job* const job : others) {
      while (!tessera_job_done(job)) tessera_wait_any(&job, 1, kForever, nullptr);
    }
  });
  EXPECT_EQ(told, (std::vector<uint64_t>{1, 2, 3, 4, 0}));
}

TEST_F(Order, TasksGoByTheirPriorityAndElseByThatOfTheirStream) {
  open(1);
  tessera_stream* const low = stream(TESSERA_ORDER_COMPLETION, -2);
  tessera_stream* const high = stream(TESSERA_ORDER_COMPLETION, 3);
  const int highest = 7, lowest = -7;
  std::vector<tessera_job*> jobs = {submit(low)};
  work_.wait_for(1);
  jobs.push_back(submit(low));
  jobs.push_back(submit(high, &lowest));
  jobs.push_back(submit(high));
  jobs.push_back(submit(low, &highest));
  jobs.push_back(submit(high));
  work_.let_go();
  tessera_stream_wait_until_done(low);
  tessera_stream_wait_until_done(high);
  const uint32_t of_low = tessera_stream_id(low), of_high = tessera_stream_id(high);
  EXPECT_EQ(work_.begun,
            (std::vector<std::pair<uint32_t, uint64_t>>{
                {of_low, 0}, {of_low, 2}, {of_high, 1}, {of_high, 2}, {of_low, 1}, {of_high, 0}}));
  for (tessera_job* const job : jobs) tessera_job_release(job);
  tessera_stream_release(low);
  tessera_stream_release(high);
}

TEST_F(Order, PrioritiesBeyondTheLimitsAreRefused) {
  open(1);
  const tessera_stream_options beyond = {.size = sizeof beyond, .priority = 8};
  tessera_stream* none = nullptr;
  EXPECT_EQ(message(tessera_stream_open_with(pipeline_, &beyond, &none)),
            "a priority of 8; allowed -7 to 7");
  EXPECT_EQ(none, nullptr);
  tessera_stream* const any = stream(TESSERA_ORDER_SUBMISSION, 0);
  const int priority = -8;
  const tessera_submit_options options = {.size = sizeof options, .priority = &priority};
  tessera_job* job = nullptr;
  EXPECT_EQ(message(tessera_submit(any, nullptr, 0, &options, &job)),
            "a priority of -8; allowed -7 to 7");
  tessera_stream_release(any);
}

}  // namespace
}  // namespace tessera::c_test
