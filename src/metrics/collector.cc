#include "metrics/collector.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "metrics/steady_rate.h"

namespace tessera::metrics {
namespace {

constexpr std::int64_t kLatencyHalfNs = 5'000'000'000;

double rate(double amount, std::int64_t window_ns) {
  return window_ns > 0 ? amount * 1e9 / static_cast<double>(window_ns) : 0;
}

std::int64_t overlap(TimeSpan a, TimeSpan b) {
  return std::max<std::int64_t>(std::min(a.to_ns, b.to_ns) - std::max(a.from_ns, b.from_ns), 0);
}

// What is counted a second at `now_ns`, from the finest bins or, where they do not reach back far
// enough, from the next.
double rate_at(const BinSeries& bins, std::int64_t now_ns) {
  SteadyRate rate;
  for (int level = 0; level < 2; ++level) {
    const std::int64_t end = now_ns / BinSeries::bin_ns(level);  // the bin that is not over
    std::vector<std::int32_t> counts;
    for (std::int64_t i = std::max<std::int64_t>(end - BinSeries::kBinsOfLevel, 0); i < end; ++i) {
      counts.push_back(bins.at(level, i).count);
    }
    const SteadyRate found = steady_rate(counts, BinSeries::bin_ns(level));
    if (level == 0 || found.settled || rate.periods == 0) rate = found;
    if (rate.settled) break;
  }
  return rate.per_second;
}

// The same at the end of each bin of a piece of the past, up to `end`.
std::vector<double> rates_of(const BinSeries& bins, int level, std::int64_t first,
                             std::int64_t end) {
  const std::int64_t begin = std::max<std::int64_t>(first - BinSeries::kBinsOfLevel, 0);
  std::vector<std::int32_t> counts;
  for (std::int64_t i = begin; i < end; ++i) counts.push_back(bins.at(level, i).count);
  const std::span<const std::int32_t> all(counts);
  std::vector<double> rates;
  for (std::int64_t i = first; i < end; ++i) {
    if (i < begin) {  // before there was time
      rates.push_back(0);
      continue;
    }
    const auto length = static_cast<std::size_t>(i + 1 - begin);
    // Where nothing was going on, only something new changes that.
    if (!rates.empty() && rates.back() == 0 && counts[length - 1] == 0) {
      rates.push_back(0);
      continue;
    }
    rates.push_back(steady_rate(all.first(length), BinSeries::bin_ns(level)).per_second);
  }
  return rates;
}

void carry_depth(std::vector<Bin>& row, std::int32_t depth) {
  for (Bin& bin : row) {
    bin.depth_max = std::max(bin.depth_max, depth);
    if (bin.count > 0) depth = bin.depth_last;
    bin.depth_last = depth;
  }
}

void sort_by_begin(std::vector<Event>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.begin_ns < b.begin_ns; });
}

}  // namespace

struct Collector::SourceTotals {
  std::int64_t runs = 0, busy_ns = 0, cycles = 0;
  std::int64_t bytes_in = 0, bytes_out = 0, in_ns = 0, out_ns = 0;
  std::int64_t depth = 0, depth_at_ns = 0, faults = 0;
  std::int64_t run_end_ns = INT64_MIN;  // of the last kernel run
  std::int64_t busy_told_ns = 0;        // the most that a snapshot has said
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
    const bool in_a_hurry = drain_rings() > 0.25;
    pause = in_a_hurry ? std::max(pause / 4, std::chrono::milliseconds(1))
                       : std::min(pause * 2, options_.period);
  }
}

void Collector::drain() {
  const std::lock_guard lock(mutex_);
  drain_rings();
}

double Collector::drain_rings() {
  const auto take_or_lose = [this](std::size_t ring, std::span<const Event> events) {
    try {
      take(ring, events);
    } catch (const std::bad_alloc&) {
      lost_ += std::ssize(events);
    }
  };
  try {
    return recorder_.drain(take_or_lose);
  } catch (const std::bad_alloc&) {
    return 1;  // what is in the rings stays there until the next time, which comes soon
  }
}

// `states` and works are looked at before the rings: what ends meanwhile is seen twice, and its
// event says that it is over.
Collector::Running Collector::drain_and_look(const std::vector<Recorder::SourceState>& states) {
  const std::vector<Recorder::Work> works = recorder_.works();
  drain_rings();
  add_new_sources();
  Running running(totals_.size());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::int64_t since = states[i].running_since;
    if (since == Recorder::kNotRunning) continue;
    if (since >= totals_[i]->run_end_ns) running[i].push_back(since);
  }
  for (const Recorder::Work& work : works) {
    if (work.ring < ring_end_ns_.size() && work.begin_ns < ring_end_ns_[work.ring]) continue;
    if (work.source.index < running.size()) running[work.source.index].push_back(work.begin_ns);
  }
  for (std::vector<std::int64_t>& begins : running) std::sort(begins.begin(), begins.end());
  return running;
}

void Collector::add_new_sources() {
  for (std::size_t i = totals_.size(); i < recorder_.source_count(); ++i) {
    totals_.push_back(std::make_unique<SourceTotals>());
  }
}

void Collector::take(std::size_t ring, std::span<const Event> events) {
  if (ring >= ring_end_ns_.size()) ring_end_ns_.resize(ring + 1, INT64_MIN);
  add_new_sources();
  for (const Event& event : events) {
    TESSERA_CHECK(event.source.index < totals_.size(), "an event of source {}, there are {}",
                  event.source.index, totals_.size());
    count(event);
    if (event.kind == EventKind::kStageRun) {
      ring_end_ns_[ring] = std::max(ring_end_ns_[ring], event.end_ns);
    }
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
      if (event.kind == EventKind::kKernelRun) {
        totals.cycles += event.value;
        totals.run_end_ns = std::max(totals.run_end_ns, event.end_ns);
      }
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
      if (event.end_ns < totals.depth_at_ns) break;  // another thread's, later than this
      totals.depth = event.value;
      totals.depth_at_ns = event.end_ns;
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
  const std::vector<Recorder::SourceState> states = recorder_.sources();
  const Running running = drain_and_look(states);
  Snapshot snapshot;
  snapshot.at_ns = now_ns;
  const std::int64_t longest = std::chrono::nanoseconds(options_.window).count();
  snapshot.window_ns = std::min(std::max<std::int64_t>(now_ns, 0), longest);
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
  for (std::size_t i = 0; i < states.size(); ++i) {
    snapshot.sources.push_back(describe(i, states[i], running[i], snapshot));
    if (states[i].description.kind == SourceKind::kTasks) {
      snapshot.tasks.per_second += snapshot.sources.back().runs_per_second;
    }
  }
  return snapshot;
}

SourceSnapshot Collector::describe(std::size_t source, const Recorder::SourceState& state,
                                   const std::vector<std::int64_t>& running, const Snapshot& at) {
  // Events are in whole bins: the window of what is over ends with the last that is.
  const std::int64_t end = at.at_ns / BinSeries::kFinestBinNs * BinSeries::kFinestBinNs;
  const TimeSpan window = {.from_ns = std::max<std::int64_t>(end - at.window_ns, 0), .to_ns = end};
  SourceSnapshot snapshot;
  snapshot.id.index = static_cast<std::uint16_t>(source);
  snapshot.description = state.description;
  snapshot.running = running;
  if (!running.empty()) snapshot.running_since_ns = running.front();
  std::int64_t busy_ns = 0;
  for (const std::int64_t begin : running) {
    busy_ns += overlap({.from_ns = begin, .to_ns = at.at_ns}, window);
    snapshot.busy_ns += std::max<std::int64_t>(at.at_ns - begin, 0);
  }
  SourceTotals& totals = *totals_[source];
  add_totals(totals, window, snapshot);
  busy_ns += totals.bins.sum(window).busy_ns;
  snapshot.runs_per_second = rate_at(totals.bins, at.at_ns);
  // A paced run ends by its schedule, which may be a little before its event comes.
  snapshot.busy_ns = totals.busy_told_ns = std::max(snapshot.busy_ns, totals.busy_told_ns);
  const std::int64_t threads = std::max(state.description.threads, 1);
  const std::int64_t window_ns = window.to_ns - window.from_ns;
  if (window_ns > 0) {
    const auto whole = static_cast<double>(window_ns * threads);
    snapshot.utilisation = std::min(static_cast<double>(busy_ns) / whole, 1.0);
  }
  return snapshot;
}

void Collector::add_totals(const SourceTotals& totals, TimeSpan window,
                           SourceSnapshot& snapshot) const {
  const std::int64_t window_ns = window.to_ns - window.from_ns;
  const Bin recent = totals.bins.sum(window);
  const auto share = [window_ns](std::int64_t busy_ns) {
    return std::min(rate(static_cast<double>(busy_ns) * 1e-9, window_ns), 1.0);
  };
  snapshot.runs = totals.runs;
  snapshot.busy_ns += totals.busy_ns;
  snapshot.cycles = totals.cycles;
  snapshot.bytes_in = totals.bytes_in;
  snapshot.bytes_out = totals.bytes_out;
  snapshot.in_ns = totals.in_ns;
  snapshot.out_ns = totals.out_ns;
  snapshot.in_share = share(recent.in_ns);
  snapshot.out_share = share(recent.out_ns);
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

HistoryAnswer Collector::bins_of(const HistoryQuestion& question, const Running& running,
                                 std::int64_t now_ns) const {
  HistoryAnswer answer;
  answer.span = question.span;
  answer.until_ns = now_ns;
  // The finest level that reaches back far enough for every source, and is not too many bins.
  int level = 0;
  for (const auto& totals : totals_) {
    level = std::max(level, totals->bins.level_with(question.span.from_ns));
  }
  const std::int64_t length = question.span.to_ns - question.span.from_ns;
  while (level < BinSeries::kLevels - 1 && length / BinSeries::bin_ns(level) >= question.bins_max) {
    ++level;
  }
  const std::int64_t width = answer.bin_ns = BinSeries::bin_ns(level);
  const std::int64_t first = answer.first_bin = question.span.from_ns / width;
  const std::int64_t last =
      std::min((question.span.to_ns - 1) / width, first + question.bins_max - 1);
  const std::vector<Recorder::SourceState> states = recorder_.sources();
  for (std::size_t source = 0; source < totals_.size(); ++source) {
    const BinSeries& bins = totals_[source]->bins;
    std::vector<Bin>& row = answer.bins.emplace_back();
    for (std::int64_t i = first; i <= last; ++i) {
      row.push_back(bins.at(level, i));
      const TimeSpan bin = {.from_ns = i * width, .to_ns = (i + 1) * width};
      for (const std::int64_t begin : running[source]) {
        row.back().busy_ns += overlap({.from_ns = begin, .to_ns = now_ns}, bin);
      }
    }
    const SourceKind kind = states[source].description.kind;
    answer.rates.emplace_back();
    if (kind == SourceKind::kQueue) carry_depth(row, bins.depth_before(level, first));
    if (kind == SourceKind::kTasks) {
      answer.rates.back() = rates_of(bins, level, first, std::min(last + 1, now_ns / width));
    }
  }
  return answer;
}

HistoryAnswer Collector::history_at(const HistoryQuestion& question, std::int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  const Running running = drain_and_look(recorder_.sources());
  HistoryAnswer answer = bins_of(question, running, now_ns);
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
