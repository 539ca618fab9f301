// Empties a Recorder's rings and keeps what is asked for later: totals, percentiles, the newest
// events and the history of the whole run.
//
//   Recorder ─ drain() about every 20 ms ─► [ totals | histograms | bins | newest events ]
//                                             ├─► followers (event_file.h)
//                                             └─► snapshot(), history()
//
// One thread of its own drains; all functions may be called from any thread. An event is counted
// when it is drained, so a run counts when it has ended; its time counts while it goes on: the
// recorder knows what is running, and queries count up to their moment.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "metrics/event.h"
#include "metrics/history.h"
#include "metrics/recorder.h"
#include "metrics/snapshot.h"

namespace tessera::metrics {

struct CollectorOptions {
  // How long rings fill at most between two drains; shorter while they fill quickly. Zero: no
  // thread, the owner calls drain().
  std::chrono::milliseconds period{20};
  std::chrono::milliseconds window{1000};  // of the shares and rates of a snapshot
  std::size_t events_kept = 1 << 18;       // one by one; 40 bytes each
};

// A piece of the past: single events where all of them are still kept and they are not too many,
// bins in any case.
struct HistoryAnswer {
  TimeSpan span;
  bool has_events = false;
  std::vector<Event> events;  // that touch the span, in the order of their begins
  // What is known: bins are whole up to here, and empty behind. What goes on is in them.
  std::int64_t until_ns = 0;
  std::int64_t bin_ns = 0;
  std::int64_t first_bin = 0;  // index of the first bin since time 0
  // For each source. A queue keeps its depth in bins in which none was noted.
  std::vector<std::vector<Bin>> bins;
  // Of tasks: completed a second at the end of each bin up to until_ns. Of other sources empty.
  std::vector<std::vector<double>> rates;
};

struct HistoryQuestion {
  TimeSpan span;
  std::size_t events_max = 20'000;
  std::int64_t bins_max = 2'000;
};

// Events by their numbers, for readers that follow what is new.
struct NewEvents {
  std::uint64_t next = 0;  // to be asked for next time
  std::uint64_t missed =
      0;  // that were asked for and are not given: too old, or more than the limit
  std::vector<Event> events;
};

class Collector {
 public:
  // The recorder outlives the collector.
  explicit Collector(Recorder& recorder, CollectorOptions options = {});
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;
  ~Collector();  // drains once more

  // Takes what waits in the rings now. The thread does so by itself.
  void drain();

  Snapshot snapshot() { return snapshot_at(recorder_.now()); }
  // The follower sees every event from now on once, on the draining thread; it must neither wait
  // nor call the collector. unfollow() drains once more before it ends.
  using Follower = std::function<void(std::span<const Event>)>;
  std::uint64_t follow(Follower follower);
  void unfollow(std::uint64_t id);

  // For a moment that is not now; drains before.
  Snapshot snapshot_at(std::int64_t now_ns);

  HistoryAnswer history(const HistoryQuestion& question) {
    return history_at(question, recorder_.now());
  }
  HistoryAnswer history_at(const HistoryQuestion& question, std::int64_t now_ns);
  // Those from number `from` on, the newest `events_max` where there are more.
  NewEvents events_since(std::uint64_t from, std::size_t events_max) const;
  // The newest events that are kept, in the order of their begins: for the exports.
  std::vector<Event> recent_events() const;

  Recorder& recorder() const { return recorder_; }

 private:
  struct SourceTotals;
  struct TaskTotals;

  // When what goes on began, for each source; in order.
  using Running = std::vector<std::vector<std::int64_t>>;

  void run();
  double drain_rings();
  Running drain_and_look(const std::vector<Recorder::SourceState>& states);
  void add_new_sources();
  void take(std::size_t ring, std::span<const Event> events);
  void count(const Event& event);
  void count_task(const Event& event);
  SourceSnapshot describe(std::size_t source, const Recorder::SourceState& state,
                          const std::vector<std::int64_t>& running, const Snapshot& at);
  void add_totals(const SourceTotals& totals, TimeSpan window, SourceSnapshot& snapshot) const;
  HistoryAnswer bins_of(const HistoryQuestion& question, const Running& running,
                        std::int64_t now_ns) const;

  Recorder& recorder_;
  const CollectorOptions options_;
  mutable std::mutex mutex_;  // everything below but the thread
  std::int64_t events_ = 0;
  std::int64_t lost_ = 0;                              // events for which there was no memory
  std::vector<std::unique_ptr<SourceTotals>> totals_;  // by source
  std::unique_ptr<TaskTotals> tasks_;
  std::vector<std::int64_t> ring_end_ns_;  // of each ring's last stage run
  RecentEvents recent_;
  std::vector<std::pair<std::uint64_t, Follower>> followers_;
  std::uint64_t next_follower_ = 1;
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace tessera::metrics
