#include "metrics/collector.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace tessera::metrics {
namespace {

constexpr std::int64_t kLatencyHalfNs = 5'000'000'000;

double rate(double amount, std::int64_t window_ns) {
  return window_ns > 0 ? amount * 1e9 / static_cast<double>(window_ns) : 0;
}

void sort_by_begin(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
}

}  // namespace

struct Collector::SourceTotals {
  std::int64_t runs = 0, busy_ns = 0, cycles = 0;
  std::int64_t bytes_in = 0, bytes_out = 0, in_ns = 0, out_ns = 0;
  std::int64_t depth = 0, faults = 0;
  Histogram run, waited, transfer_in, transfer_out;
  BinSeries bins;
};

struct Collector::TaskTotals {
  TaskSnapshot counts;
  Histogram latency;
  // The last 5 to 10 seconds: two halves that take turns.
  Histogram latency_half[2];
  std::int64_t half = 0;  // which 5 seconds since time 0 are being counted
};

Collector::Collector(Recorder& recorder, CollectorOptions options)
    : recorder_(recorder),
      options_(std::move(options)),
      tasks_(std::make_unique<TaskTotals>()),
      recent_(std::max<std::size_t>(options_.events_kept, 1)) {
  if (options_.period.count() > 0) thread_ = std::thread([this] { run(); });
}

Collector::~Collector() {
  if (thread_.joinable()) {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    stop_.notify_all();
    thread_.join();
  }
  drain();
}

void Collector::run() {
  std::unique_lock lock(mutex_);
  auto pause = options_.period;
  while (!stop_.wait_for(lock, pause, [this] { return stopping_; })) {
    // Half of what a ring holds in one period would be too close to losing events.
    bool in_a_hurry = false;
    try {
      in_a_hurry = drain_rings() > 0.25;
    } catch (const std::bad_alloc&) {  // they stay in the rings until the next time
    }
    pause = in_a_hurry ? std::max(pause / 4, std::chrono::milliseconds(1))
                       : std::min(pause * 2, options_.period);
  }
}

void Collector::drain() {
  const std::lock_guard lock(mutex_);
  drain_rings();
}

double Collector::drain_rings() {
  return recorder_.drain([this](std::span<const Event> events) {
    try {
      take(events);
    } catch (const std::bad_alloc&) {
      lost_ += std::ssize(events);
    }
  });
}

void Collector::take(std::span<const Event> events) {
  for (std::size_t i = totals_.size(); i < recorder_.source_count(); ++i) {
    totals_.push_back(std::make_unique<SourceTotals>());
  }
  for (const Event& event : events) {
    TESSERA_CHECK(event.source.index < totals_.size(), "an event of source {}, there are {}",
                  event.source.index, totals_.size());
    count(event);
  }
  recent_.add(events);
  events_ += std::ssize(events);
  for (const auto& [id, follower] : followers_) follower(events);
}

std::uint64_t Collector::follow(Follower follower) {
  const std::lock_guard lock(mutex_);
  followers_.emplace_back(next_follower_, std::move(follower));
  return next_follower_++;
}

void Collector::unfollow(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  drain_rings();
  std::erase_if(followers_, [id](const auto& each) { return each.first == id; });
}

void Collector::count(const Event& event) {
  SourceTotals& totals = *totals_[event.source.index];
  const std::int64_t duration = event.end_ns - event.begin_ns;
  totals.bins.add(event);
  switch (event.kind) {
    case EventKind::kStageRun:
      totals.waited.add(event.value);
      [[fallthrough]];
    case EventKind::kKernelRun:
      ++totals.runs;
      totals.busy_ns += duration;
      totals.run.add(duration);
      if (event.kind == EventKind::kKernelRun) totals.cycles += event.value;
      break;
    case EventKind::kTransferIn:
      totals.bytes_in += event.value;
      totals.in_ns += duration;
      totals.transfer_in.add(duration);
      break;
    case EventKind::kTransferOut:
      totals.bytes_out += event.value;
      totals.out_ns += duration;
      totals.transfer_out.add(duration);
      break;
    case EventKind::kQueueDepth:
      totals.depth = event.value;
      break;
    case EventKind::kTaskSubmitted:
    case EventKind::kTaskCompleted:
      count_task(event);
      break;
    case EventKind::kFault:
      ++totals.faults;
      break;
    case EventKind::kControlChange:
      break;
  }
}

void Collector::count_task(const Event& event) {
  TaskTotals& tasks = *tasks_;
  if (event.kind == EventKind::kTaskSubmitted) {
    ++tasks.counts.submitted;
    return;
  }
  switch (event.outcome) {
    case Outcome::kFailed:
      ++tasks.counts.failed;
      return;
    case Outcome::kCancelled:
      ++tasks.counts.cancelled;
      return;
    case Outcome::kOk:
      break;
  }
  ++tasks.counts.ok;
  const std::int64_t latency = event.end_ns - event.begin_ns;
  tasks.latency.add(latency);
  const std::int64_t half = event.end_ns / kLatencyHalfNs;
  if (half > tasks.half) {
    tasks.latency_half[half & 1].clear();
    if (half > tasks.half + 1) tasks.latency_half[(half + 1) & 1].clear();
    tasks.half = half;
  }
  tasks.latency_half[half & 1].add(latency);
}

Snapshot Collector::snapshot_at(std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  drain_rings();
  // Whole bins: the window ends with the last that is over.
  const std::int64_t end = now_ns / BinSeries::kFinestBinNs * BinSeries::kFinestBinNs;
  const std::int64_t longest = std::chrono::nanoseconds(options_.window).count();
  const TimeSpan window = {.from_ns = std::max<std::int64_t>(end - longest, 0), .to_ns = end};
  Snapshot snapshot;
  snapshot.at_ns = now_ns;
  snapshot.window_ns = window.to_ns - window.from_ns;
  snapshot.recording = recorder_.recording();
  snapshot.events = events_;
  snapshot.dropped = recorder_.dropped() + lost_;
  snapshot.tasks = tasks_->counts;
  snapshot.tasks.latency = tasks_->latency.distribution();
  Histogram late;
  const std::int64_t half = now_ns / kLatencyHalfNs;
  if (half <= tasks_->half + 1) late.add(tasks_->latency_half[tasks_->half & 1]);
  if (half <= tasks_->half) late.add(tasks_->latency_half[(tasks_->half + 1) & 1]);
  snapshot.tasks.latency_late = late.distribution();
  const std::vector<Recorder::SourceState> states = recorder_.sources();
  double completed = 0;
  for (std::size_t i = 0; i < states.size(); ++i) {
    snapshot.sources.push_back(describe(i, states[i], window));
    if (states[i].description.kind == SourceKind::kTasks) {
      completed += snapshot.sources.back().runs_per_second;
    }
  }
  snapshot.tasks.per_second = completed;
  return snapshot;
}

SourceSnapshot Collector::describe(std::size_t source, const Recorder::SourceState& state,
                                   TimeSpan window) const {
  SourceSnapshot snapshot;
  snapshot.id.index = static_cast<std::uint16_t>(source);
  snapshot.description = state.description;
  snapshot.running_since_ns = state.running_since;
  std::int64_t busy_ns = 0;
  if (state.running_since != Recorder::kNotRunning) {
    busy_ns =
        std::max<std::int64_t>(window.to_ns - std::max(state.running_since, window.from_ns), 0);
  }
  const std::int64_t window_ns = window.to_ns - window.from_ns;
  if (source < totals_.size()) {
    const SourceTotals& totals = *totals_[source];
    const Bin recent = totals.bins.sum(window);
    busy_ns += recent.busy_ns;
    snapshot.runs = totals.runs;
    snapshot.busy_ns = totals.busy_ns;
    snapshot.runs_per_second = rate(recent.count, window_ns);
    snapshot.cycles = totals.cycles;
    snapshot.bytes_in = totals.bytes_in;
    snapshot.bytes_out = totals.bytes_out;
    snapshot.in_ns = totals.in_ns;
    snapshot.out_ns = totals.out_ns;
    snapshot.bytes_in_per_second = rate(static_cast<double>(recent.bytes_in), window_ns);
    snapshot.bytes_out_per_second = rate(static_cast<double>(recent.bytes_out), window_ns);
    snapshot.depth = totals.depth;
    snapshot.depth_max = std::max<std::int64_t>(recent.depth_max, totals.depth);
    snapshot.faults = totals.faults;
    snapshot.run = totals.run.distribution();
    snapshot.waited = totals.waited.distribution();
    snapshot.transfer_in = totals.transfer_in.distribution();
    snapshot.transfer_out = totals.transfer_out.distribution();
  }
  const int threads = std::max(state.description.threads, 1);
  if (window_ns > 0) {
    const double share = static_cast<double>(busy_ns) / static_cast<double>(window_ns) / threads;
    snapshot.utilisation = std::min(share, 1.0);
  }
  return snapshot;
}

HistoryAnswer Collector::bins_of(const HistoryQuestion& question) const {
  HistoryAnswer answer;
  answer.span = question.span;
  // The finest level that reaches back far enough for every source, and is not too many bins.
  int level = 0;
  for (const auto& totals : totals_) {
    level = std::max(level, totals->bins.level_with(question.span.from_ns));
  }
  const std::int64_t length = question.span.to_ns - question.span.from_ns;
  while (level < BinSeries::kLevels - 1 && length / BinSeries::bin_ns(level) >= question.bins_max) {
    ++level;
  }
  answer.bin_ns = BinSeries::bin_ns(level);
  answer.first_bin = question.span.from_ns / answer.bin_ns;
  const std::int64_t last =
      std::min((question.span.to_ns - 1) / answer.bin_ns, answer.first_bin + question.bins_max - 1);
  for (const auto& totals : totals_) {
    std::vector<Bin>& row = answer.bins.emplace_back();
    for (std::int64_t i = answer.first_bin; i <= last; ++i)
      row.push_back(totals->bins.at(level, i));
  }
  return answer;
}

HistoryAnswer Collector::history(const HistoryQuestion& question) const {
  const std::lock_guard lock(mutex_);
  HistoryAnswer answer = bins_of(question);
  if (question.span.from_ns < recent_.complete_since_ns()) return answer;
  for (std::uint64_t i = recent_.first(); i != recent_.next(); ++i) {
    const Event& event = recent_[i];
    if (event.end_ns < question.span.from_ns || event.begin_ns >= question.span.to_ns) continue;
    if (answer.events.size() == question.events_max) {
      answer.events.clear();
      return answer;
    }
    answer.events.push_back(event);
  }
  sort_by_begin(answer.events);
  answer.has_events = true;
  return answer;
}

NewEvents Collector::events_since(std::uint64_t from, std::size_t events_max) const {
  const std::lock_guard lock(mutex_);
  NewEvents result;
  result.next = recent_.next();
  from = std::min(from, recent_.next());
  std::uint64_t first = std::max(from, recent_.first());
  if (recent_.next() - first > events_max) first = recent_.next() - events_max;
  result.missed = first - from;
  for (std::uint64_t i = first; i != recent_.next(); ++i) result.events.push_back(recent_[i]);
  return result;
}

std::vector<Event> Collector::recent_events() const {
  std::vector<Event> events = events_since(0, options_.events_kept).events;
  sort_by_begin(events);
  return events;
}

}  // namespace tessera::metrics
