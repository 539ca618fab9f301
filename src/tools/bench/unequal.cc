// Devices of unequal speed behind one pipeline, one of them hanging: what share of the sum of the
// speeds of those that work comes out at the end.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/check.h"
#include "device/scripted_device.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "tools/bench/pipeline.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kFastMs = 2;
constexpr double kHangs = 0;  // in place of a factor: it hangs in every run from the third on

// How many times longer than the fastest each device takes for a run.
struct Devices {
  const char* name;
  std::vector<double> factors;
  StreamOrder order = StreamOrder::kCompletion;
};

const std::vector<Devices>& device_sets() {
  static const std::vector<Devices> sets = {
      {"one alone", {1}},
      {"1 : 10", {1, 10}},
      {"1 : 100", {1, 100}},
      {"1 : 3 : 10", {1, 3, 10}},
      {"1 : 2 : 100", {1, 2, 100}},
      {"1, one hangs", {1, kHangs}},
      {"1 : 10, one hangs", {1, 10, kHangs}},
      {"1 : 3 : 10, one hangs", {1, 3, 10, kHangs}},
      {"1 : 10, in order", {1, 10}, StreamOrder::kSubmission},
      {"1, one hangs, in order", {1, kHangs}, StreamOrder::kSubmission},
      {"1 : 10, one hangs, in order", {1, 10, kHangs}, StreamOrder::kSubmission},
      {"1 : 3 : 10, one hangs, in order", {1, 3, 10, kHangs}, StreamOrder::kSubmission}};
  return sets;
}

struct Measured {
  double ideal = 0, rate = 0;  // tasks per second
  std::vector<std::int64_t> runs;
  std::int64_t made_again = 0;
  double longest_gap_ms = 0;  // between two results
};

std::unique_ptr<device::Device> make_device(std::size_t index, double factor) {
  device::ScriptedOptions options;
  options.name = fmt::format("device{}", index);
  options.queue_depth = 16;
  const bool hangs = factor == kHangs;
  const auto time =
      std::chrono::nanoseconds(static_cast<std::int64_t>(1e6 * kFastMs * (hangs ? 1 : factor)));
  options.run_time = [time](const device::ActivityObserver::Run&) { return time; };
  if (hangs) {
    options.faults.fault = [runs = 0](const device::FaultPlace&) mutable {
      return ++runs > 2 ? device::Fault::kHang : device::Fault::kNone;
    };
  }
  auto made = device::make_scripted_device(options);
  TESSERA_CHECK(made.ok(), "{}", made.error().message);
  return std::move(made).value();
}

Result<Measured> measure(const Devices& devices, double seconds) {
  auto runtime = runtime::RuntimeState::make(true);
  Measured measured;
  for (std::size_t i = 0; i < devices.factors.size(); ++i) {
    const double factor = devices.factors[i];
    if (factor != kHangs) measured.ideal += 1e3 / (kFastMs * factor);
    runtime->add(DeviceKind::kSim, {}, make_device(i, factor));
  }
  constexpr std::array<std::int64_t, 1> kBytes = {64};
  TESSERA_TRY(auto state,
              runtime->load(Network(device::scripted_network("timed", kBytes, kBytes)), {}, false));
  PipelineOptions options;
  options.stages = default_stages(Model(state));
  TESSERA_TRY(auto opened, runtime::PipelineState::open(runtime, options));
  Pipeline pipeline(std::move(opened));
  Stream stream = pipeline.open_stream({.order = devices.order});
  std::atomic<std::int64_t> succeeded{0};
  std::atomic<bool> stop{false};
  Clock::time_point last = Clock::now();  // of the stream's callbacks, which come one at a time
  std::atomic<std::int64_t> gap{0};
  std::thread source([&] {
    while (!stop) {
      if (!stream.wait_for_room(std::chrono::milliseconds(20))) continue;
      SubmitOptions submit;
      submit.deadline = std::chrono::milliseconds(1000);
      submit.callback = [&](const TaskOutcome& outcome) {
        if (!outcome.ok()) return;
        ++succeeded;
        const Clock::time_point now = Clock::now();
        gap = std::max<std::int64_t>(gap, (now - std::exchange(last, now)).count());
      };
      (void)stream.submit({Tensor::zeros(Format::kU8, {64})}, std::move(submit));
    }
  });
  std::this_thread::sleep_for(std::chrono::duration<double>(1.5));  // until all have been measured
  const auto begin = Clock::now();
  const std::int64_t before = succeeded;
  gap = 0;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double lasted = std::chrono::duration<double>(Clock::now() - begin).count();
  measured.rate = static_cast<double>(succeeded - before) / lasted;
  measured.longest_gap_ms = 1e-6 * static_cast<double>(gap);
  stop = true;
  source.join();
  stream.wait_until_done();
  for (const auto& entry : runtime->devices()) {
    measured.runs.push_back(entry->status().runs);
    measured.made_again += entry->status().runs_made_again;
  }
  return measured;
}

}  // namespace

Status run_unequal_suite(const PipelineSuite& suite) {
  const ProgressCallback progress = progress_bar();
  TextTable table(
      {"devices", "ideal/s", "tasks/s", "of ideal", "longest gap ms", "runs of each", "again"});
  json rows = json::array();
  double least = 1, done = 0;
  for (const Devices& devices : device_sets()) {
    if (progress) progress("unequal", done++ / static_cast<double>(device_sets().size()));
    TESSERA_TRY(const Measured measured, measure(devices, 2 * suite.seconds));
    const double share = measured.rate / measured.ideal;
    least = std::min(least, share);
    table.add({devices.name, fmt::format("{:.1f}", measured.ideal),
               fmt::format("{:.1f}", measured.rate), percent(share),
               fmt::format("{:.1f}", measured.longest_gap_ms),
               fmt::format("{}", fmt::join(measured.runs, ", ")),
               fmt::format("{}", measured.made_again)});
    rows.push_back({{"devices", devices.name},
                    {"factors", devices.factors},
                    {"ideal_tasks_per_second", measured.ideal},
                    {"tasks_per_second", measured.rate},
                    {"of_ideal", share},
                    {"longest_gap_ms", measured.longest_gap_ms},
                    {"runs", measured.runs},
                    {"runs_made_again", measured.made_again}});
  }
  if (progress) progress("unequal", 1);
  if (suite.json) {
    fmt::print("{}\n", json_text({{"suite", "unequal"},
                                  {"fast_ms", kFastMs},
                                  {"sets", std::move(rows)},
                                  {"of_ideal_min", least}}));
    return {};
  }
  fmt::print(
      "{}\nRun times as multiples of {} ms; results as they come where it says nothing else. "
      "Ideal: the "
      "speeds of the devices that work, added up.\nAt least {} of it\n",
      table.text(), kFastMs, percent(least));
  return {};
}

}  // namespace tessera::tools
