// When outcomes come: how long after a deadline, or after cancel(), and whether the results of
// equal jobs come one by one.
//
//   stuck ──────────────────────────────────────────────────────►  its run does not end
//   measured ──── submit ──────── deadline, cancel() ─►│ reported behind it, in the same stream
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
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
using std::chrono::nanoseconds;
using Micros = std::chrono::microseconds;
using Millis = std::chrono::milliseconds;

constexpr int kTrials = 250;  // of each row
constexpr Millis kDeadline{5};
constexpr Micros kRunTime{200};
constexpr double kLimitMs = 2;
constexpr Millis kSlowCallback{20};
constexpr std::byte kStuck{1};  // the input of a run that does not end before the gate opens

// Where runs are stuck.
class Gate {
 public:
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
    arrived_ = 0;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    ++openings_;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    // It may be closed again before this thread gets its turn.
    changed_.wait(lock, [this, before = openings_] { return open_ || openings_ > before; });
  }
  void wait_for_one() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return arrived_ > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0, openings_ = 0;
  bool open_ = true;
};

struct Situation {
  const char* name;
  StreamOrder order = StreamOrder::kSubmission;
  bool behind = true;           // another job of its stream is stuck; else it is stuck itself
  int devices = 1;              // with two, its run ends on the other one
  bool load = false;            // other streams keep the other device busy
  bool slow_callbacks = false;  // another stream's jobs are late, too, with slow callbacks
};
constexpr std::array<Situation, 7> kSituations = {{
    {.name = "alone, its run goes on", .behind = false},
    {.name = "behind a stuck job"},
    {.name = "behind a stuck job, run elsewhere", .devices = 2},
    {.name = "behind a stuck job, unordered", .order = StreamOrder::kCompletion},
    {.name = "the same under load", .order = StreamOrder::kCompletion, .devices = 2, .load = true},
    {.name = "behind a stuck job under load", .devices = 2, .load = true},
    {.name = "beside callbacks of 20 ms", .slow_callbacks = true},
}};

struct DeviceSet {
  int devices = 1, kernels = 1;
};

std::shared_ptr<runtime::RuntimeState> make_runtime(DeviceSet set, nanoseconds run_time,
                                                    Gate* gate) {
  auto runtime = runtime::RuntimeState::make(true);
  for (int i = 0; i < set.devices; ++i) {
    device::ScriptedOptions options;
    options.name = fmt::format("device{}", i);
    options.kernels = set.kernels;
    options.queue_depth = 16;
    options.run_time = [run_time](const device::ActivityObserver::Run&) { return run_time; };
    if (gate != nullptr) {
      options.compute = [gate](const device::ActivityObserver::Run&,
                               std::span<const std::span<std::byte>> inputs,
                               std::span<const std::span<std::byte>>) -> Status {
        if (inputs[0][0] == kStuck) gate->pass();
        return {};
      };
    }
    auto made = device::make_scripted_device(options);
    TESSERA_CHECK(made.ok(), "{}", made.error().message);
    runtime->add(DeviceKind::kSim, {}, std::move(made).value());
  }
  return runtime;
}

Result<Pipeline> open_pipeline(const std::shared_ptr<runtime::RuntimeState>& runtime) {
  constexpr std::array<std::int64_t, 1> kBytes = {64};
  TESSERA_TRY(auto model,
              runtime->load(Network(device::scripted_network("timed", kBytes, kBytes)), {}, false));
  PipelineOptions options;
  options.stages = default_stages(Model(model));
  TESSERA_TRY(auto opened, runtime::PipelineState::open(runtime, options));
  return Pipeline(std::move(opened));
}

std::vector<Tensor> input(bool stuck) {
  Tensor tensor = Tensor::zeros(Format::kU8, {64});
  if (stuck) tensor.bytes[0] = kStuck;
  std::vector<Tensor> inputs;
  inputs.push_back(std::move(tensor));
  return inputs;
}

// Streams beside the one that is measured.
class Others {
 public:
  Others(Pipeline& pipeline, const Situation& situation) {
    if (situation.load) {
      for (int i = 0; i < 4; ++i) {
        streams_.push_back(pipeline.open_stream());
        for (int k = 0; k < 8; ++k) load(streams_.back());
      }
    }
    if (situation.slow_callbacks) {
      streams_.push_back(pipeline.open_stream());
      slow_ = std::thread([this] { be_late(streams_.back()); });
    }
  }
  ~Others() {
    stop_ = true;
    if (slow_.joinable()) slow_.join();
    for (Stream& stream : streams_) stream.wait_until_done();
  }
  Others(const Others&) = delete;
  Others& operator=(const Others&) = delete;

 private:
  // Each that is done is followed by another.
  void load(Stream stream) {
    SubmitOptions options;
    options.callback = [this, stream](const TaskOutcome&) {
      if (!stop_) load(stream);
    };
    (void)stream.submit(input(false), std::move(options));
  }
  void be_late(Stream stream) {
    while (!stop_) {
      SubmitOptions options;
      options.deadline = Millis(1);
      options.callback = [](const TaskOutcome& outcome) {
        if (!outcome.ok()) std::this_thread::sleep_for(kSlowCallback);
      };
      const auto job = stream.submit(input(false), std::move(options));
      while (job.ok() && !job->done() && !stop_) std::this_thread::sleep_for(Millis(1));
    }
  }

  std::atomic<bool> stop_{false};
  std::vector<Stream> streams_;
  std::thread slow_;
};

struct Way {
  bool cancel = false;    // else its deadline passes
  bool callback = false;  // else wait() returns
};

struct Trial {
  // From the deadline, or the call of cancel(), until the caller is notified. Nothing: it was done
  // before.
  std::optional<nanoseconds> told;
  nanoseconds slept{0};  // that a thread wakes up late which sleeps until the deadline
};

Result<Trial> trial(Stream& stream, const Situation& situation, const Way& way, Gate& gate) {
  struct Closed {  // open again whatever happens
    explicit Closed(Gate& at) : gate(at) { gate.close(); }
    ~Closed() { gate.open(); }
    Closed(const Closed&) = delete;
    Closed& operator=(const Closed&) = delete;
    Gate& gate;
  } const closed(gate);
  SubmitOptions options;
  options.priority = kPriorityHighest;
  std::optional<Job> stuck;
  if (situation.behind) {
    TESSERA_TRY(stuck, stream.submit(input(true), options));
    gate.wait_for_one();
  }
  // Where there is load it waits for ever, though there is a device that works.
  if (situation.load) options.priority = kPriorityLowest;
  struct Told {
    std::atomic<std::int64_t> at{0};
    std::atomic<bool> good{false};
    void tell(const TaskOutcome& outcome) {
      good = outcome.ok();
      at = Clock::now().time_since_epoch().count();
      at.notify_all();
    }
  } told;
  if (way.callback) {
    options.callback = [&told](const TaskOutcome& outcome) { told.tell(outcome); };
  }
  if (!way.cancel) options.deadline = kDeadline;
  Clock::time_point ended = Clock::now() + kDeadline;
  TESSERA_TRY(Job job, stream.submit(input(!situation.behind), options));
  std::thread waiter;
  if (!way.callback) waiter = std::thread([&] { told.tell(job.wait()); });
  if (way.cancel) {
    std::this_thread::sleep_for(Millis(3));
    ended = Clock::now();
    job.cancel();
  } else {
    std::this_thread::sleep_until(ended);
  }
  Trial measured;
  if (!way.cancel) measured.slept = Clock::now() - ended;
  // Where it is not notified at once it must be notified in the end.
  while (told.at == 0 && Clock::now() < ended + Millis(100)) {
    std::this_thread::sleep_for(Micros(100));
  }
  gate.open();
  told.at.wait(0);
  if (waiter.joinable()) waiter.join();
  stream.wait_until_done();
  const Clock::time_point at{nanoseconds(told.at)};
  if (!told.good || at > ended) measured.told = at - ended;
  return measured;
}

struct Delays {
  double median_ms = 0, most_ms = 0, worst_ms = 0;  // of 99 % at most
  double within = 0;                                // share
  double slept_ms = 0;  // that a sleeping thread woke up late at worst, in the same time
};

Delays delays_of(std::vector<nanoseconds> times, nanoseconds slept) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double share) {
    const auto index = static_cast<std::size_t>(share * static_cast<double>(times.size() - 1));
    return 1e-6 * static_cast<double>(times[index].count());
  };
  const auto late = std::find_if(times.begin(), times.end(), [](nanoseconds time) {
    return 1e-6 * static_cast<double>(time.count()) > kLimitMs;
  });
  return {at(0.5), at(0.99), at(1),
          static_cast<double>(late - times.begin()) / static_cast<double>(times.size()),
          1e-6 * static_cast<double>(slept.count())};
}

Result<Delays> measure_delays(const Situation& situation, const Way& way) {
  Gate gate;
  const auto runtime = make_runtime({.devices = situation.devices}, kRunTime, &gate);
  TESSERA_TRY(Pipeline pipeline, open_pipeline(runtime));
  Stream stream = pipeline.open_stream({.order = situation.order});
  for (int i = 0; i < 20; ++i) {  // how long runs take is known from then on
    TESSERA_TRY(Job job, stream.submit(input(false)));
    (void)job.wait();
  }
  std::vector<nanoseconds> times;
  nanoseconds slept{0};
  {
    const Others others(pipeline, situation);
    for (int i = 0; i < kTrials; ++i) {
      TESSERA_TRY(const Trial measured, trial(stream, situation, way, gate));
      if (measured.told.has_value()) times.push_back(*measured.told);
      slept = std::max(slept, measured.slept);
    }
  }
  if (std::ssize(times) < kTrials * 4 / 5) {
    return Error{ErrorCode::kInternal,
                 fmt::format("{}: of {} jobs {} were done before", situation.name, kTrials,
                             kTrials - std::ssize(times))};
  }
  return delays_of(std::move(times), slept);
}

// ---- sixteen jobs, one after the other ----

constexpr int kJobs = 16;
constexpr Millis kJobTime{37};
struct SixteenJobs {
  const char* name;
  DeviceSet set;
};
constexpr std::array<SixteenJobs, 3> kRhythms = {
    {{"one kernel", {.devices = 1, .kernels = 1}},
     {"two devices", {.devices = 2, .kernels = 1}},
     {"a device of two kernels", {.devices = 1, .kernels = 2}}}};

// When each is complete, in milliseconds after the first was submitted.
Result<std::vector<double>> measure_rhythm(const DeviceSet& set) {
  const auto runtime = make_runtime(set, kJobTime, nullptr);
  TESSERA_TRY(Pipeline pipeline, open_pipeline(runtime));
  Stream stream = pipeline.open_stream();
  std::vector<double> times;
  times.reserve(kJobs);
  const Clock::time_point begin = Clock::now();
  for (int i = 0; i < kJobs; ++i) {
    SubmitOptions options;
    options.callback = [&times, begin](const TaskOutcome&) {
      times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    };
    TESSERA_TRY(const Job job, stream.submit(input(false), std::move(options)));
  }
  stream.wait_until_done();
  return times;
}

Result<json> measure_rhythms(TextTable& table, std::string& lines) {
  json rows = json::array();
  for (const SixteenJobs& row : kRhythms) {
    TESSERA_TRY(const std::vector<double> times, measure_rhythm(row.set));
    const int side_by_side = row.set.devices * row.set.kernels;
    double most = 0, gap = 0;
    std::string text;
    for (int i = 0; i < kJobs; ++i) {
      const int rounds = i / side_by_side + 1;
      const double ideal = static_cast<double>(kJobTime.count()) * rounds;
      const auto at = static_cast<std::size_t>(i);
      most = std::max(most, times[at] - ideal);
      gap = std::max(gap, times[at] - (at == 0 ? 0 : times[at - 1]));
      text += fmt::format("{}{:.1f}", i == 0 ? "" : ", ", times[at]);
    }
    table.add({row.name, fmt::format("{:.1f}", times.front()), fmt::format("{:.1f}", times.back()),
               fmt::format("{}", kJobTime.count() * (kJobs / side_by_side)),
               fmt::format("{:.1f}", gap), fmt::format("{:.2f}", most)});
    lines += fmt::format("{}: {}\n", row.name, text);
    rows.push_back({{"devices", row.name}, {"times_ms", times}, {"late_ms_max", most}});
  }
  return rows;
}

}  // namespace

Status run_outcome_suite(const PipelineSuite& suite) {
  const ProgressCallback progress = progress_bar();
  TextTable delays({"job", "ended by", "seen by", "median ms", "99 % ms", "worst ms", "within 2 ms",
                    "asleep ms"});
  json rows = json::array();
  double least = 1, done = 0;
  for (const Situation& situation : kSituations) {
    for (const Way& way :
         {Way{false, false}, Way{false, true}, Way{true, false}, Way{true, true}}) {
      if (progress) progress("outcomes", done++ / static_cast<double>(4 * kSituations.size()));
      TESSERA_TRY(const Delays of, measure_delays(situation, way));
      const char* const ended = way.cancel ? "cancel()" : "deadline";
      const char* const told = way.callback ? "callback" : "wait()";
      least = std::min(least, of.within);
      delays.add({situation.name, ended, told, fmt::format("{:.3f}", of.median_ms),
                  fmt::format("{:.3f}", of.most_ms), fmt::format("{:.3f}", of.worst_ms),
                  percent(of.within),
                  way.cancel ? std::string("-") : fmt::format("{:.3f}", of.slept_ms)});
      rows.push_back({{"job", situation.name},
                      {"ended_by", ended},
                      {"told_by", told},
                      {"median_ms", of.median_ms},
                      {"p99_ms", of.most_ms},
                      {"worst_ms", of.worst_ms},
                      {"within_limit", of.within},
                      {"asleep_ms", of.slept_ms}});
    }
  }
  TextTable rhythm(
      {"16 jobs of 37 ms", "first ms", "last ms", "ideal ms", "longest gap ms", "late ms"});
  std::string lines;
  TESSERA_TRY(json rhythms, measure_rhythms(rhythm, lines));
  if (progress) progress("outcomes", 1);
  if (suite.json) {
    show_lines(json_text({{"suite", "outcomes"},
                          {"trials", kTrials},
                          {"limit_ms", kLimitMs},
                          {"delays", std::move(rows)},
                          {"within_limit_min", least},
                          {"rhythm", std::move(rhythms)}}) +
               "\n");
    return {};
  }
  show_lines(
      fmt::format("{}\nFrom the deadline, or the call of cancel(), until the caller is notified; "
                  "{} jobs per row. At least {} within {} ms\n\n{}\n{}",
                  delays.text(), kTrials, percent(least), kLimitMs, rhythm.text(), lines));
  return {};
}

}  // namespace tessera::tools
