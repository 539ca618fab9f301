// The balancer against pipelines that exist as arithmetic: a stage with s seconds per task and t
// threads does t / s tasks per second, no matter what this machine does.
#include "runtime/balancer.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tessera::runtime {
namespace {

struct ModelStage {
  double seconds = 0;  // a task
  int threads = 1;
  int kernels = 0;
  int threads_useful = 1 << 20;  // more do not help (cores, say)
};

class ModelPipeline {
 public:
  explicit ModelPipeline(std::vector<ModelStage> stages) : stages_(std::move(stages)) {}

  double rate() const {
    double rate = 1e9;
    for (const ModelStage& stage : stages_) rate = std::min(rate, limit(stage));
    return rate;
  }
  PeriodLoad period() const {
    PeriodLoad load;
    load.seconds = 1;
    load.finished = static_cast<std::int64_t>(rate());
    int number = 0;
    for (const ModelStage& stage : stages_) {
      StageLoad one;
      one.name = "stage" + std::to_string(number++);
      one.threads = stage.threads;
      one.threads_max = stage.kernels > 0 ? 4 * stage.kernels : 256;
      one.tasks = load.finished;
      // Threads beyond the useful ones only make each other slower.
      const double slower =
          std::max(1.0, static_cast<double>(stage.threads) / stage.threads_useful);
      one.busy_seconds = std::min<double>(stage.threads, rate() * stage.seconds * slower);
      one.kernels = stage.kernels;
      if (stage.kernels > 0) one.kernel_seconds = rate() * stage.seconds;
      load.stages.push_back(one);
    }
    return load;
  }
  // Periods until nothing changes any more.
  int settle(Balancer& balancer) {
    int last = 0;
    for (int period = 1; period <= 40; ++period) {
      for (const ThreadChange& change : balancer.decide(this->period())) {
        stages_[change.stage].threads = change.threads;
        reasons_.push_back(change.reason);
        last = period;
      }
    }
    return last;
  }
  int threads(std::size_t stage) const { return stages_[stage].threads; }
  const std::vector<std::string>& reasons() const { return reasons_; }

 private:
  static double limit(const ModelStage& stage) {
    const int workers = stage.kernels > 0 ? std::min(stage.kernels, stage.threads)
                                          : std::min(stage.threads, stage.threads_useful);
    return workers / stage.seconds;
  }
  std::vector<ModelStage> stages_;
  std::vector<std::string> reasons_;
};

TEST(Balancer, GivesTheDominantStageThreadsUntilTheKernelIsTheLimit) {
  ModelPipeline pipeline(
      {{.seconds = 0.020}, {.seconds = 0.002, .kernels = 1}, {.seconds = 0.001}});
  Balancer balancer;
  EXPECT_LE(pipeline.settle(balancer), 8);
  EXPECT_GE(pipeline.rate(), 0.95 / 0.002);
  EXPECT_EQ(pipeline.threads(2), 1);
  EXPECT_LE(pipeline.threads(0), 16);
  EXPECT_EQ(pipeline.reasons().front(),
            "stage0: 1 -> 4 threads: 100 % busy with 20.00 ms a task, 50.0 tasks/s; the others "
            "could do 500.0");
}

TEST(Balancer, BalancesTwoSlowStages) {
  ModelPipeline pipeline(
      {{.seconds = 0.030}, {.seconds = 0.004, .kernels = 2}, {.seconds = 0.012}});
  Balancer balancer;
  pipeline.settle(balancer);
  EXPECT_GE(pipeline.rate(), 0.95 * 2 / 0.004);
}

TEST(Balancer, TakesBackWhatDidNotHelp) {
  // Two cores: the third thread makes nothing faster.
  ModelPipeline pipeline(
      {{.seconds = 0.010, .threads_useful = 2}, {.seconds = 0.001, .kernels = 1}});
  Balancer balancer;
  pipeline.settle(balancer);
  EXPECT_DOUBLE_EQ(pipeline.rate(), 200);
  EXPECT_LE(pipeline.threads(0), 4);
}

TEST(Balancer, StagesWithThreadsToSpareGiveThemBack) {
  ModelPipeline pipeline(
      {{.seconds = 0.001, .threads = 32}, {.seconds = 0.002, .kernels = 1}, {.seconds = 0.001}});
  Balancer balancer;
  pipeline.settle(balancer);
  EXPECT_EQ(pipeline.threads(0), 1);
  EXPECT_DOUBLE_EQ(pipeline.rate(), 500);
}

TEST(Balancer, LeavesAPipelineAloneThatIsWellAsItIs) {
  ModelPipeline pipeline({{.seconds = 0.003, .threads = 2}, {.seconds = 0.002, .kernels = 1}});
  Balancer balancer;
  EXPECT_EQ(pipeline.settle(balancer), 0);
}

// Else what was found out is thrown away, and left alone for a minute, whenever the source rests.
TEST(Balancer, PauseOfTheSourceIsNoVerdictOnTheLastChange) {
  ModelPipeline busy({{.seconds = 0.010}, {.seconds = 0.001, .kernels = 1}});
  Balancer balancer;
  const PeriodLoad before = busy.period();
  const Balancer::Changes more = balancer.decide(before);
  ASSERT_EQ(more.size(), 1U);
  ASSERT_GT(more[0].threads, 1);
  PeriodLoad pause = before;
  pause.finished = 0;
  for (StageLoad& stage : pause.stages) {
    stage.tasks = 0;
    stage.busy_seconds = stage.kernel_seconds = 0;
  }
  pause.stages[0].threads = more[0].threads;
  for (int period = 0; period < 5; ++period) EXPECT_TRUE(balancer.decide(pause).empty());
  // Trickling in is no better.
  pause.finished = pause.stages[0].tasks = pause.stages[1].tasks = 5;
  pause.stages[0].busy_seconds = 0.05;
  for (const ThreadChange& change : balancer.decide(pause)) {
    EXPECT_EQ(change.reason.find("back:"), std::string::npos) << change.reason;
  }
}

TEST(Balancer, SlowPipelinesAreMeasuredForLonger) {
  EXPECT_FALSE(Balancer::enough(0.3, 39));
  EXPECT_TRUE(Balancer::enough(0.3, 40));
  EXPECT_FALSE(Balancer::enough(0.1, 4000));
  EXPECT_TRUE(Balancer::enough(2, 1));
}

}  // namespace
}  // namespace tessera::runtime
