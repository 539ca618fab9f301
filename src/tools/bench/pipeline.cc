#include "tools/bench/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "tools/bench/stage_times.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Mix {
  const char* name;
  StageTimes times;
};

constexpr Mix kMixes[] = {
    {"execute dominant", {2, 8, 2, 0}},  {"pre dominant", {8, 2, 2, 0}},
    {"two equal", {6, 6, 2, 0}},         {"all equal", {5, 5, 5, 0}},
    {"jittered +-50 %", {5, 6, 5, 0.5}},
};

struct MixRates {
  double tasks_per_second = 0;
  double busy = 0;  // of the processor, from its first run to its last
};

// Submits `tasks` through the pipeline, waiting for room.
Result<MixRates> flow(const StageTimes& times, Handover handover, int tasks) {
  TimedPipeline timed(times);
  TESSERA_TRY(Pipeline pipeline, timed.open({}, {.handover = handover, .jobs_max = 32}));
  Stream stream = pipeline.open_stream();
  const auto begin = Clock::now();
  for (int i = 0; i < tasks; ++i) {
    TESSERA_TRY(const Job job, stream.submit_when_room({Tensor::zeros(Format::kU8, {64})}));
  }
  stream.wait_until_done();
  const double seconds = seconds_since(begin);
  // Filling and emptying the pipeline is not the processor's waiting.
  const double ends = 1e-3 * (times.pre_ms + times.post_ms);
  return MixRates{tasks / seconds, timed.kernel_busy_seconds() / (seconds - ends)};
}

Result<MixRates> one_by_one(const StageTimes& times, int tasks) {
  TimedPipeline timed(times);
  const auto begin = Clock::now();
  TESSERA_RETURN_IF_ERROR(timed.run_one_by_one(tasks));
  const double seconds = seconds_since(begin);
  return MixRates{tasks / seconds, timed.kernel_busy_seconds() / seconds};
}

double longest_ms(const StageTimes& times) {
  return std::max({times.pre_ms, times.execute_ms, times.post_ms});
}

// Tasks a second if the stage with the most work never waited; the times are those of these tasks.
double ideal_rate(const StageTimes& times, int tasks) {
  double pre = 0, execute = 0, post = 0;
  for (int i = 0; i < tasks; ++i) {
    const auto sequence = static_cast<std::uint64_t>(i);
    pre += times.of(times.pre_ms, sequence, 0);
    execute += times.of(times.execute_ms, sequence + 1, 1);  // tasks count from 1
    post += times.of(times.post_ms, sequence, 2);
  }
  return 1e3 * tasks / std::max({pre, execute, post});
}

json row_json(const Mix& mix, double ideal, const MixRates& loop, const MixRates& step,
              const MixRates& free) {
  const auto form = [ideal](const MixRates& measured) {
    return json{{"tasks_per_second", measured.tasks_per_second},
                {"of_ideal", measured.tasks_per_second / ideal},
                {"processor_busy", measured.busy}};
  };
  return {{"mix", mix.name},
          {"stage_ms", {mix.times.pre_ms, mix.times.execute_ms, mix.times.post_ms}},
          {"jitter", mix.times.jitter},
          {"ideal_tasks_per_second", ideal},
          {"one_by_one", form(loop)},
          {"lock_step", form(step)},
          {"free_flow", form(free)}};
}

}  // namespace

Status run_pipeline_suite(const PipelineSuite& suite) {
  const ProgressCallback progress = progress_bar();
  TextTable table({"stage times pre/execute/post ms", "ideal/s", "loop", "lock step", "free flow",
                   "busy: loop", "lock step", "free flow"});
  json rows = json::array();
  double busy_min = 1, of_ideal_min = 1;
  double done = 0;
  for (const Mix& mix : kMixes) {
    if (progress) progress("pipeline", done++ / std::size(kMixes));
    const int tasks = std::max(30, static_cast<int>(suite.seconds * 1e3 / longest_ms(mix.times)));
    const double ideal = ideal_rate(mix.times, tasks);
    TESSERA_TRY(const MixRates loop, one_by_one(mix.times, tasks / 3));
    TESSERA_TRY(const MixRates step, flow(mix.times, Handover::kLockStep, tasks));
    TESSERA_TRY(const MixRates free, flow(mix.times, Handover::kFreeFlow, tasks));
    of_ideal_min = std::min(of_ideal_min, free.tasks_per_second / ideal);
    if (mix.times.execute_ms >= longest_ms(mix.times)) busy_min = std::min(busy_min, free.busy);
    rows.push_back(row_json(mix, ideal, loop, step, free));
    const auto share = [ideal](const MixRates& measured) {
      return percent(measured.tasks_per_second / ideal);
    };
    table.add({fmt::format("{} {}/{}/{}", mix.name, mix.times.pre_ms, mix.times.execute_ms,
                           mix.times.post_ms),
               fmt::format("{:.1f}", ideal), share(loop), share(step), share(free),
               percent(loop.busy), percent(step.busy), percent(free.busy)});
  }
  if (progress) progress("pipeline", 1);
  if (suite.json) {
    show_lines(json_text({{"suite", "pipeline"},
                          {"mixes", std::move(rows)},
                          {"of_ideal_min", of_ideal_min},
                          {"busy_min", busy_min}}) +
               "\n");
    return {};
  }
  show_lines(fmt::format(
      "{}\nShares of the ideal 1 / longest stage, and of the time from the processor's first run "
      "to "
      "its last.\nfree flow: at least {} of the ideal; the processor, where it is the slowest, at "
      "least {} busy\n",
      table.text(), percent(of_ideal_min), percent(busy_min)));
  return {};
}

}  // namespace tessera::tools
