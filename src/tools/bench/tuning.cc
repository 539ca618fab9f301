#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tools/bench/pipeline.h"
#include "tools/bench/stage_times.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

// Pre-processing takes eight times as long as the processor, post-processing three times.
constexpr StageTimes kTimes = {16, 2, 6, 0.2};
constexpr double kWindow = 0.5;  // seconds over which throughput is looked at
constexpr double kTuningTime = 20;

// Keeps the pipeline full until the object goes.
class Load {
 public:
  explicit Load(Pipeline pipeline) : pipeline_(std::move(pipeline)), thread_([this] { run(); }) {}
  ~Load() {
    stop_ = true;
    thread_.join();
    pipeline_.wait_until_done();
  }

  // Tasks a second in the next `seconds`.
  double rate(double seconds) {
    const auto begin = Clock::now();
    const std::int64_t before = pipeline_.status().succeeded;
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const std::int64_t after = pipeline_.status().succeeded;
    return static_cast<double>(after - before) /
           std::chrono::duration<double>(Clock::now() - begin).count();
  }
  PipelineStatus status() const { return pipeline_.status(); }

 private:
  void run() {
    Stream stream = pipeline_.open_stream();
    while (!stop_) {
      if (!stream.wait_for_room(std::chrono::milliseconds(20))) continue;
      (void)stream.submit({Tensor::zeros(Format::kU8, {64})});
    }
  }
  Pipeline pipeline_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

struct Best {
  TimedPipeline::Threads threads;
  double rate = 0;
};

// The best of some settings chosen with knowledge of the times.
Result<Best> by_hand(double seconds) {
  Best best;
  for (const TimedPipeline::Threads& threads :
       {TimedPipeline::Threads{8, 2, 3}, {9, 2, 4}, {10, 2, 4}, {12, 3, 5}, {16, 4, 6}}) {
    TimedPipeline timed(kTimes);
    TESSERA_TRY(Pipeline pipeline, timed.open(threads, {.jobs_max = 128}));
    Load load(std::move(pipeline));
    (void)load.rate(kWindow);
    const double rate = load.rate(seconds);
    if (rate > best.rate) best = {threads, rate};
  }
  return best;
}

struct Tuned {
  double start_rate = 0;
  double reached_after = -1;  // seconds to 95 % of the best, for good; < 0: never
  double last_rate = 0;       // of the last quarter
  std::vector<double> rates;  // of each window
  std::vector<std::string> log;
  TimedPipeline::Threads threads;
};

Result<Tuned> tune(double best_rate) {
  TimedPipeline timed(kTimes);
  Tuned tuned;
  std::mutex mutex;
  const auto begin = Clock::now();
  PipelineOptions options{.jobs_max = 128};
  options.tuning_log = [&](const std::string& line) {
    const std::lock_guard lock(mutex);
    tuned.log.push_back(fmt::format(
        "{:5.1f} s  {}", std::chrono::duration<double>(Clock::now() - begin).count(), line));
  };
  TESSERA_TRY(Pipeline pipeline, timed.open({1, 1, 1}, std::move(options)));
  Pipeline handle = pipeline;
  Load load(std::move(pipeline));
  tuned.start_rate = load.rate(kWindow);
  handle.set_tuning(true);
  const auto windows = static_cast<std::size_t>(kTuningTime / kWindow);
  for (std::size_t window = 0; window < windows; ++window) {
    tuned.rates.push_back(load.rate(kWindow));
  }
  // A window is noisy by itself: the mean of two must hold from there to the end.
  for (std::size_t first = tuned.rates.size() - 1; first-- > 0;) {
    if ((tuned.rates[first] + tuned.rates[first + 1]) / 2 < 0.95 * best_rate) break;
    tuned.reached_after = static_cast<double>(first) * kWindow;
  }
  const std::size_t quarter = windows / 4;
  for (std::size_t i = windows - quarter; i < windows; ++i) {
    tuned.last_rate += tuned.rates[i] / static_cast<double>(quarter);
  }
  const PipelineStatus status = load.status();
  tuned.threads = {status.stages[0].threads, status.stages[1].threads, status.stages[2].threads};
  return tuned;
}

}  // namespace

Status run_tuning_suite(const PipelineSuite& suite) {
  TESSERA_TRY(const Best best, by_hand(suite.seconds));
  TESSERA_TRY(const Tuned tuned, tune(best.rate));
  const bool reached = tuned.reached_after >= 0;
  if (suite.json) {
    show_lines(
        json_text({{"suite", "tuning"},
                   {"stage_ms", {kTimes.pre_ms, kTimes.execute_ms, kTimes.post_ms}},
                   {"best_by_hand", best.rate},
                   {"start", tuned.start_rate},
                   {"tuned", tuned.last_rate},
                   {"of_best", tuned.last_rate / best.rate},
                   {"seconds_to_95_percent", reached ? json(tuned.reached_after) : json(nullptr)},
                   {"threads", {tuned.threads.pre, tuned.threads.execute, tuned.threads.post}},
                   {"log", tuned.log}}) +
        "\n");
    return {};
  }
  show("stages pre {} ms, execute {} ms, post {} ms, +-{:.0f} %\n", kTimes.pre_ms,
       kTimes.execute_ms, kTimes.post_ms, 100 * kTimes.jitter);
  show("best by hand     {:6.1f} tasks/s with {}, {}, {} threads\n", best.rate, best.threads.pre,
       best.threads.execute, best.threads.post);
  show("one thread each  {:6.1f} tasks/s\n", tuned.start_rate);
  for (const std::string& line : tuned.log) show("  {}\n", line);
  show("tuned            {:6.1f} tasks/s ({} of the best) with {}, {}, {} threads\n",
       tuned.last_rate, percent(tuned.last_rate / best.rate), tuned.threads.pre,
       tuned.threads.execute, tuned.threads.post);
  show("{}\n", reached ? fmt::format("95 % of the best after {:.1f} s, and from then on to "
                                     "the end of {:.0f} s",
                                     tuned.reached_after, kTuningTime)
                       : fmt::format("95 % of the best was not held within {:.0f} s", kTuningTime));
  return {};
}

}  // namespace tessera::tools
