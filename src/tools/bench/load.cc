#include "tools/bench/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "base/guarded.h"
#include "metrics/limit.h"
#include "tools/bench/repeated_inputs.h"
#include "tools/terminal/console.h"

namespace tessera::tools {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

double milliseconds(std::chrono::nanoseconds time) {
  return 1e-6 * static_cast<double>(time.count());
}

// What came back; the callbacks of several streams meet here.
class Outcomes {
 public:
  explicit Outcomes(const std::vector<Tensor>& given) : inputs_(given) {}

  void took(TaskOutcome outcome) {
    if (outcome.ok()) inputs_.give_back(std::move(outcome.result().runs));
    const std::lock_guard lock(mutex_);
    if (!outcome.ok()) {
      ++failed_;
      if (first_error_.empty()) first_error_ = outcome.error().error.to_string();
      return;
    }
    const TaskTimes& times = outcome.result().times;
    latencies_.push_back(milliseconds(times.total));
    for (std::size_t s = 0; s < TaskTimes::kStagesMax; ++s) {
      queued_ += milliseconds(times.stages[s].queued);
      busy_[s] += milliseconds(times.stages[s].busy);
    }
    transfer_in_ += milliseconds(times.transfer_in);
    kernel_ += milliseconds(times.kernel);
    transfer_out_ += milliseconds(times.transfer_out);
    cycles_ = outcome.result().cycles;
  }

  RepeatedInputs inputs_;
  std::vector<double> latencies_;  // ms
  std::int64_t failed_ = 0, cycles_ = 0;
  std::string first_error_;
  // Added over the tasks, ms.
  double queued_ = 0, transfer_in_ = 0, kernel_ = 0, transfer_out_ = 0;
  std::array<double, TaskTimes::kStagesMax> busy_{};

 private:
  std::mutex mutex_;
};

// How the generator itself did.
struct Generator {
  double waited = 0;  // seconds for room, of the slowest thread
  double filled = 0;  // seconds for filling inputs, likewise
  double late = 0;    // offered rate: how far behind it fell, seconds
};

struct Measured {
  explicit Measured(const std::vector<Tensor>& inputs) : outcomes(inputs) {}
  Outcomes outcomes;
  Generator generator;
  double seconds = 0;
  PipelineStatus status_before, status;
  std::vector<DeviceStatus> before, after;
  std::vector<std::string> tuning;
};

class LoadRun {
 public:
  LoadRun(const Network& network, const std::vector<Tensor>& inputs, const LoadBench& bench)
      : network_(network), inputs_(inputs), bench_(bench) {}

  Status run(Measured& measured) {
    TESSERA_TRY(Runtime runtime, Runtime::open({.devices = bench_.devices}));
    TESSERA_TRY(const Model model, bench_.device_form ? runtime.load_in_device_form(network_)
                                                      : runtime.load(network_));
    TESSERA_TRY(Pipeline pipeline, open(runtime, model, measured));
    TESSERA_RETURN_IF_ERROR(warm_up(pipeline));
    measured.before = runtime.devices();
    measured.status_before = pipeline.status();
    const auto begin = Clock::now();
    TESSERA_RETURN_IF_ERROR(generate(pipeline, measured));
    measured.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    measured.after = runtime.devices();
    measured.status = pipeline.status();
    if (!bench_.trace.empty()) TESSERA_RETURN_IF_ERROR(runtime.write_trace(bench_.trace));
    if (!bench_.events.empty()) TESSERA_RETURN_IF_ERROR(runtime.write_events(bench_.events));
    if (measured.outcomes.failed_ > 0 && measured.outcomes.latencies_.empty()) {
      return Error{ErrorCode::kUnavailable,
                   "every task failed, the first with: " + measured.outcomes.first_error_};
    }
    return {};
  }

 private:
  Result<Pipeline> open(Runtime& runtime, const Model& model, Measured& measured) {
    PipelineOptions options;
    options.stages = default_stages(model);
    options.handover = bench_.handover;
    options.hint = bench_.hint;
    options.jobs_max = bench_.in_flight;
    options.tune = bench_.tune;
    options.tuning_log = [&measured, this](const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      measured.tuning.push_back(line);
    };
    if (bench_.compare_every > 0) {
      options.debug = {.mode = DebugMode::kBoth, .every = bench_.compare_every};
    }
    TESSERA_TRY(Pipeline pipeline, runtime.open_pipeline(std::move(options)));
    for (const std::string& text : bench_.stage_threads) {
      const std::size_t equals = text.find('=');
      char* end = nullptr;
      const long threads =
          equals == std::string::npos ? 0 : std::strtol(text.c_str() + equals + 1, &end, 10);
      if (end == nullptr || *end != '\0' || threads < 1) {
        return Error{
            ErrorCode::kInvalidArgument,
            fmt::format("--stage-threads '{}': write STAGE=THREADS, for example pre=2", text)};
      }
      TESSERA_RETURN_IF_ERROR(pipeline.set_threads(
          text.substr(0, equals), static_cast<int>(std::min<long>(threads, 1 << 20))));
    }
    return pipeline;
  }

  // The first run of a model allocates and simulates what later ones reuse.
  Status warm_up(Pipeline& pipeline) const {
    TESSERA_TRY(Job job, pipeline.open_stream().submit(inputs_));
    const TaskOutcome outcome = job.wait();
    if (!outcome.ok()) return outcome.error().error.with_context("the first task");
    return {};
  }

  Status generate(Pipeline& pipeline, Measured& measured) {
    std::vector<Generator> generators(static_cast<std::size_t>(bench_.streams));
    std::vector<std::jthread> threads;
    const Status begun = guarded("generating load", [&]() -> Status {
      for (Generator& generator : generators) {
        threads.emplace_back([&, stream = pipeline.open_stream()]() mutable {
          take_note(guarded("generating load", [&] {
            offer(stream, measured.outcomes, generator);
            return Status();
          }));
          stream.wait_until_done();
        });
      }
      return {};
    });
    take_note(begun);
    for (std::jthread& thread : threads) thread.join();
    TESSERA_RETURN_IF_ERROR(failed_);
    for (const Generator& generator : generators) {
      measured.generator.waited = std::max(measured.generator.waited, generator.waited);
      measured.generator.filled = std::max(measured.generator.filled, generator.filled);
      measured.generator.late = std::max(measured.generator.late, generator.late);
    }
    return {};
  }

  // The first error ends the load.
  void take_note(const Status& status) {
    if (status.ok()) return;
    const std::lock_guard lock(log_mutex_);
    if (failed_.ok()) failed_ = status;
    stop_ = true;
  }

  // One stream's share of the load.
  void offer(Stream& stream, Outcomes& outcomes, Generator& generator) const {
    const auto begin = Clock::now();
    const std::int64_t share = (bench_.tasks + bench_.streams - 1) / bench_.streams;
    const auto period =
        std::chrono::duration<double>(bench_.rate > 0 ? bench_.streams / bench_.rate : 0);
    for (std::int64_t i = 0;; ++i) {
      const auto now = Clock::now();
      const double elapsed = std::chrono::duration<double>(now - begin).count();
      if (stop_ || (bench_.tasks > 0 ? i >= share : elapsed >= bench_.seconds)) return;
      if (bench_.rate > 0) {
        const auto due =
            begin + std::chrono::duration_cast<Clock::duration>(static_cast<double>(i) * period);
        generator.late = std::max(generator.late, std::chrono::duration<double>(now - due).count());
        std::this_thread::sleep_until(due);
      }
      const auto ready = Clock::now();
      stream.wait_for_room();
      const auto room = Clock::now();
      generator.waited += std::chrono::duration<double>(room - ready).count();
      std::vector<Tensor> inputs = outcomes.inputs_.take();
      generator.filled += std::chrono::duration<double>(Clock::now() - room).count();
      SubmitOptions options;
      options.callback = [&outcomes](TaskOutcome outcome) { outcomes.took(std::move(outcome)); };
      (void)stream.submit_when_room(std::move(inputs), std::move(options));
    }
  }

  const Network& network_;
  const std::vector<Tensor>& inputs_;
  const LoadBench& bench_;
  std::mutex log_mutex_;
  Status failed_;
  std::atomic<bool> stop_{false};
};

struct Latency {
  double min = 0, mean = 0, median = 0, p90 = 0, p95 = 0, p99 = 0;
};

Latency latency_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const auto rank = std::ceil(share * static_cast<double>(values.size()));
    return values[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
  };
  return {values.front(),
          std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          at(0.5),
          at(0.9),
          at(0.95),
          at(0.99)};
}

struct DeviceShare {
  std::string name;
  int kernels = 0;
  double utilisation = 0;  // of all its kernels' time
  std::vector<double> kernel_utilisation;
  std::int64_t runs = 0, bytes_in = 0, bytes_out = 0, bytes_copied = 0;
  std::int64_t late_runs = 0;  // that took longer than the modelled processor
  int functions = 1;
  std::int64_t joint_runs = 0;  // of a virtual function, beside those of others
};

std::vector<DeviceShare> shares_of(const Measured& measured) {
  std::vector<DeviceShare> shares;
  for (std::size_t d = 0; d < measured.after.size(); ++d) {
    const DeviceStatus& before = measured.before[d];
    const DeviceStatus& after = measured.after[d];
    const double busy = 1e-9 * static_cast<double>((after.busy - before.busy).count());
    shares.push_back({after.name,
                      after.kernels,
                      busy / (after.kernels * measured.seconds),
                      {},
                      after.runs - before.runs,
                      after.bytes_in - before.bytes_in,
                      after.bytes_out - before.bytes_out,
                      after.bytes_copied - before.bytes_copied,
                      after.late_runs - before.late_runs,
                      after.functions,
                      after.joint_runs - before.joint_runs});
    for (std::size_t k = 0; k < after.kernel_busy.size(); ++k) {
      const auto kernel = after.kernel_busy[k] - before.kernel_busy[k];
      shares.back().kernel_utilisation.push_back(1e-9 * static_cast<double>(kernel.count()) /
                                                 measured.seconds);
    }
  }
  return shares;
}

// Of the time of its threads, however many they were, while the load was on.
double stage_share(const Measured& measured, std::size_t stage) {
  const StageStatus& before = measured.status_before.stages[stage];
  const StageStatus& after = measured.status.stages[stage];
  return static_cast<double>((after.busy - before.busy).count()) /
         std::max(static_cast<double>((after.thread_time - before.thread_time).count()), 1.0);
}

metrics::Use use_of(const Measured& measured, const std::vector<DeviceShare>& shares) {
  metrics::Use use;
  for (const DeviceShare& share : shares) {
    use.devices.push_back({.name = share.name, .kernels_busy = share.utilisation});
  }
  for (std::size_t s = 0; s < measured.status.stages.size(); ++s) {
    const StageStatus& stage = measured.status.stages[s];
    use.stages.push_back({.name = stage.name,
                          .executes = stage.kind == StageKind::kExecute,
                          .threads = stage.threads,
                          .busy = stage_share(measured, s)});
  }
  // It was kept full, or the generator is the limit.
  use.in_flight = use.in_flight_max = static_cast<std::int64_t>(measured.status.jobs_max);
  return use;
}

// The option that does what the sentence says; empty: there is none.
std::string option_for(const metrics::Limit& limit, const metrics::Use& use) {
  if (limit.cause == metrics::LimitCause::kRoom) return " (--in-flight)";
  for (const metrics::StageUse& stage : use.stages) {
    if (stage.name != limit.place) continue;
    return fmt::format(" (--stage-threads {}={}, {})", stage.name, 2 * stage.threads,
                       stage.executes ? "or --hint throughput" : "or --tune auto");
  }
  return "";
}

// What limits the throughput, and what to do about it.
std::string advice_of(const Measured& measured, const std::vector<DeviceShare>& shares,
                      bool generator_limits) {
  const metrics::Use use = use_of(measured, shares);
  const metrics::Limit limit = metrics::limit_of(use);
  if (generator_limits && limit.cause != metrics::LimitCause::kKernels) {
    std::size_t bytes = 0;
    for (const Tensor& input : measured.outcomes.inputs_.given()) bytes += input.bytes.size();
    return fmt::format(
        "the load generator is the limit: nothing in the pipeline is full; {} of its time goes "
        "into filling the {:.0f} KB of a task's inputs",
        percent(measured.generator.filled / measured.seconds), 1e-3 * static_cast<double>(bytes));
  }
  return limit.text + option_for(limit, use);
}

struct Report {
  Latency latency;
  std::vector<DeviceShare> shares;
  std::vector<std::pair<std::string, double>> times;  // mean ms a task
  double tasks_per_second = 0;
  std::string advice, warning;
};

Report report_of(const Measured& measured, const LoadBench& bench) {
  Report report;
  const Outcomes& outcomes = measured.outcomes;
  const auto tasks = static_cast<double>(std::max<std::size_t>(outcomes.latencies_.size(), 1));
  report.latency = latency_of(outcomes.latencies_);
  report.shares = shares_of(measured);
  report.tasks_per_second = static_cast<double>(outcomes.latencies_.size()) / measured.seconds;
  report.times = {{"queue", outcomes.queued_ / tasks},
                  {"pre", outcomes.busy_[0] / tasks},
                  {"transfer in", outcomes.transfer_in_ / tasks},
                  {"execute", outcomes.kernel_ / tasks},
                  {"transfer out", outcomes.transfer_out_ / tasks},
                  {"post", outcomes.busy_[2] / tasks}};
  // What is neither of these is waiting for the kernel, or for the other tasks of a batch.
  const double rest = outcomes.busy_[1] / tasks - report.times[2].second - report.times[3].second -
                      report.times[4].second;
  report.times[0].second += std::max(rest, 0.0);
  const bool offered = bench.rate > 0;
  const bool limits = offered ? measured.generator.late > 0.1 * measured.seconds
                              : measured.generator.waited < 0.02 * measured.seconds;
  if (limits && !offered) {
    report.warning = fmt::format(
        "the load generator waited for room only {} of the time: it is the limit; use more "
        "--streams",
        percent(measured.generator.waited / measured.seconds));
  } else if (limits) {
    report.warning =
        fmt::format("the load generator fell {:.2f} s behind the {:.1f} tasks/s it should offer",
                    measured.generator.late, bench.rate);
  }
  for (const DeviceShare& share : report.shares) {
    if (share.late_runs == 0) continue;
    report.warning += fmt::format(
        "{}{} of {} runs of '{}' took longer than the modelled processor: this machine computes "
        "the "
        "values more slowly; use a smaller --pace, or --timing-only",
        report.warning.empty() ? "" : "; ", share.late_runs, share.runs, share.name);
  }
  report.advice = advice_of(measured, report.shares, limits || offered);
  if (offered && !limits) {
    report.advice = fmt::format("the offered rate of {:.1f} tasks/s is kept", bench.rate);
  }
  return report;
}

json to_json(const Report& report, const Measured& measured) {
  const Latency& latency = report.latency;
  json devices = json::array();
  for (const DeviceShare& share : report.shares) {
    devices.push_back({{"name", share.name},
                       {"kernels", share.kernels},
                       {"utilisation", share.utilisation},
                       {"kernel_utilisation", share.kernel_utilisation},
                       {"runs", share.runs},
                       {"late_runs", share.late_runs},
                       {"functions", share.functions},
                       {"joint_runs", share.joint_runs},
                       {"bytes_in", share.bytes_in},
                       {"bytes_out", share.bytes_out},
                       {"bytes_copied", share.bytes_copied}});
  }
  json stages = json::array();
  for (std::size_t s = 0; s < measured.status.stages.size(); ++s) {
    const StageStatus& stage = measured.status.stages[s];
    stages.push_back(
        {{"name", stage.name}, {"threads", stage.threads}, {"busy", stage_share(measured, s)}});
  }
  json times = json::object();
  for (const auto& [name, mean] : report.times) times[name] = mean;
  return {{"tasks", measured.outcomes.latencies_.size()},
          {"failed", measured.outcomes.failed_},
          {"seconds", measured.seconds},
          {"tasks_per_second", report.tasks_per_second},
          {"cycles", measured.outcomes.cycles_},
          {"latency_ms",
           {{"min", latency.min},
            {"mean", latency.mean},
            {"median", latency.median},
            {"p90", latency.p90},
            {"p95", latency.p95},
            {"p99", latency.p99}}},
          {"mean_ms", std::move(times)},
          {"stages", std::move(stages)},
          {"devices", std::move(devices)},
          {"compared", measured.status.compared},
          {"mismatches", measured.status.mismatches},
          {"tuning", measured.tuning},
          {"advice", report.advice},
          {"warning", report.warning}};
}

void print(const Report& report, const Measured& measured) {
  const Latency& latency = report.latency;
  show("throughput  {:.1f} tasks/s   ({} tasks in {:.2f} s", report.tasks_per_second,
       measured.outcomes.latencies_.size(), measured.seconds);
  if (measured.outcomes.failed_ > 0) {
    show(", {} failed: {}", measured.outcomes.failed_, measured.outcomes.first_error_);
  }
  show(")\n\n");
  TextTable latencies({"ms", "min", "mean", "median", "p90", "p95", "p99"});
  const auto cell = [](double value) { return fmt::format("{:.3f}", value); };
  latencies.add({"latency", cell(latency.min), cell(latency.mean), cell(latency.median),
                 cell(latency.p90), cell(latency.p95), cell(latency.p99)});
  show_lines(latencies.text() + "\n");
  TextTable times(
      {"mean ms a task", "queue", "pre", "transfer in", "execute", "transfer out", "post"});
  std::vector<std::string> row = {"where it goes"};
  for (const auto& [name, mean] : report.times) row.push_back(cell(mean));
  times.add(row);
  show_lines(times.text() + "\n");
  TextTable stages({"stage", "threads", "busy"});
  for (std::size_t s = 0; s < measured.status.stages.size(); ++s) {
    const StageStatus& stage = measured.status.stages[s];
    stages.add({stage.name, std::to_string(stage.threads), percent(stage_share(measured, s))});
  }
  show_lines(stages.text() + "\n");
  TextTable devices({"device", "kernels", "busy", "runs", "bytes in", "bytes out", "bytes copied"});
  for (const DeviceShare& share : report.shares) {
    devices.add({share.name, std::to_string(share.kernels), percent(share.utilisation),
                 with_separators(share.runs), with_separators(share.bytes_in),
                 with_separators(share.bytes_out), with_separators(share.bytes_copied)});
    for (std::size_t k = 0; share.kernels > 1 && k < share.kernel_utilisation.size(); ++k) {
      devices.add({fmt::format("  kernel {}", k), "", percent(share.kernel_utilisation[k]), "", "",
                   "", ""});
    }
  }
  show_lines(devices.text() + "\n");
  for (const DeviceShare& share : report.shares) {
    if (share.functions == 1) continue;
    show("{}: one of {} virtual functions, {} runs beside those of others\n", share.name,
         share.functions, with_separators(share.joint_runs));
  }
  for (const std::string& line : measured.tuning) show("tuning: {}\n", line);
  if (measured.status.compared > 0) {
    show("compared with the host: {} tasks, {} different\n", measured.status.compared,
         measured.status.mismatches);
  }
  show("advice: {}\n", report.advice);
  if (!report.warning.empty()) show("warning: {}\n", report.warning);
}

}  // namespace

Status run_load_bench(const Network& network, const std::vector<Tensor>& inputs,
                      const LoadBench& bench) {
  Measured measured(inputs);
  TESSERA_RETURN_IF_ERROR(LoadRun(network, inputs, bench).run(measured));
  const Report report = report_of(measured, bench);
  if (bench.json) {
    json document = to_json(report, measured);
    document["notes"] = network.placement().notes;
    show_lines(json_text(document) + "\n");
  } else {
    show_lines(notes_text(network.placement().notes));
    print(report, measured);
  }
  if (measured.status.mismatches > 0) {
    return Error{ErrorCode::kInternal,
                 fmt::format("{} of {} compared tasks differ from the host; the first: {}",
                             measured.status.mismatches, measured.status.compared,
                             measured.outcomes.first_error_)};
  }
  return {};
}

}  // namespace tessera::tools
