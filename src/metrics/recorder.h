// Where the runtime notes its events. Each writing thread has a ring of its own, taken the first
// time it records and given back when it ends; the Collector empties the rings. Rings that many
// threads needed at one time go when those have ended.
//
//   stage threads ──┐ record()     ring ─┐
//   device threads ─┼─────────►    ring ─┼─ drain() ─► Collector ─► Snapshot, history, exports
//   callers ────────┘              ring ─┘
//
// record() takes no lock and no memory after a thread's first event. When recording is off it costs
// one relaxed load. All functions may be called from any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "metrics/event.h"
#include "metrics/event_ring.h"

namespace tessera::metrics {

enum class SourceKind : std::uint8_t {
  kStage,   // a stage of a pipeline with its threads: stage runs
  kKernel,  // a kernel of a device: kernel runs, and the transfers that belong to it
  kDevice,  // a device as a whole: transfers of no kernel (weights), faults
  kQueue,   // a bounded queue: depths
  kTasks,   // what applications submit: tasks submitted and completed
};
inline constexpr int kSourceKinds = 5;
const char* name_of(SourceKind kind);

struct SourceDescription {
  SourceKind kind = SourceKind::kStage;
  std::string name{};    // "pre", "kernel A"
  std::string device{};  // of a kernel or a stage bound to one; may be empty
  int threads = 1;       // of a stage
  int capacity = 0;      // of a queue, in packets
};

struct RecorderOptions {
  bool recording = true;
  std::uint64_t ring_events = 4096;  // of each thread; a power of two, from 4 on
  int rings_max = 512;   // threads that write at one time; events of any further are dropped
  int whole_rings = 64;  // rings of further threads have a quarter of ring_events
};

class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options = {});
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;
  ~Recorder();

  // Nanoseconds since the recorder was made.
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                                start_)
        .count();
  }

  // The same moment from a time of std::chrono::steady_clock in nanoseconds.
  std::int64_t from_steady(std::int64_t steady_ns) const {
    return steady_ns -
           std::chrono::duration_cast<std::chrono::nanoseconds>(start_.time_since_epoch()).count();
  }

  // The same kind, name and device again give the same source, with the threads and capacity of
  // now.
  Result<SourceId> add_source(const SourceDescription& description);
  static constexpr std::size_t kSourcesMax = 4096;

  void record(const Event& event) {
    if (recording()) write(event);
  }
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  void set_recording(bool on) { recording_.store(on, std::memory_order_relaxed); }

  // A stage's threads from now on: for the snapshot, and as a control change on the timeline.
  void set_threads(SourceId source, int threads);
  // A kernel's run that has begun and not ended, so that long runs show before their event comes.
  // Call with kNotRunning just after recording that; readers that see both count the event only.
  static constexpr std::int64_t kNotRunning = -1;
  void set_running(SourceId source, std::int64_t begin_ns) {
    sources_[source.index].load(std::memory_order_acquire)->running_since = begin_ns;
  }

  // The calling thread works for a stage from `begin_ns` on, so that long work shows before its
  // events come. end_work() just after recording those; readers that see both
  // count the events only.
  void begin_work(SourceId source, std::int64_t begin_ns) {
    if (!recording()) return;
    if (EventRing* const ring = ring_of_caller()) ring->begin_work(source, begin_ns);
  }
  void end_work();

  // The same for work that no thread stands for: a packet on its way through a device. close_work()
  // just before recording its event. None (kNoWork) where there are too many; then only the event
  // counts.
  static constexpr int kNoWork = -1;
  int open_work(SourceId source, std::int64_t begin_ns);
  void close_work(SourceId source, int work);

  // For the collector: gives all events that are waiting to `take`, of one thread's ring after the
  // other, and returns how full the fullest ring was (0 to 1). `take` must not drain.
  using Take = std::function<void(std::size_t ring, std::span<const Event>)>;
  double drain(const Take& take);
  double drain(std::vector<Event>& out) {  // appends them
    return drain([&out](std::size_t, std::span<const Event> events) {
      out.insert(out.end(), events.begin(), events.end());
    });
  }

  // What the writer of a ring works on, or what is open without one.
  static constexpr std::size_t kNoRing = SIZE_MAX;
  struct Work {
    std::size_t ring = 0;  // as drain() counts them; kNoRing: none
    SourceId source;
    std::int64_t begin_ns = 0;
  };
  std::vector<Work> works() const;

  struct SourceState {
    SourceDescription description;
    std::int64_t running_since = kNotRunning;
  };
  // All sources in the order of their ids.
  std::vector<SourceState> sources() const;
  std::size_t source_count() const { return source_count_.load(std::memory_order_acquire); }
  // Events lost because a ring was full or there was none.
  std::int64_t dropped() const;
  // Of all rings together: at most 27.5 MiB with the default options.
  std::int64_t ring_bytes() const;

 private:
  struct Source {
    SourceDescription description;  // its threads and capacity: those below
    std::atomic<int> threads = 1;
    std::atomic<int> capacity = 0;
    std::atomic<std::int64_t> running_since = kNotRunning;
    std::array<std::atomic<std::int64_t>, 32> open;  // when each began; or kNotRunning
    Source() {
      for (auto& since : open) since = kNotRunning;
    }
  };

  void write(const Event& event);
  // Of the calling thread; null: there is none left.
  EventRing* ring_of_caller() noexcept;
  EventRing* ring_or_none() noexcept;
  EventRing* ring_of_this_thread();
  std::shared_ptr<EventRing> take_ring();
  void release_spare_rings();  // mutex_ is held

  const std::uint64_t identity_;  // no two recorders of a process have the same
  const std::chrono::steady_clock::time_point start_;
  const RecorderOptions options_;
  std::atomic<bool> recording_;
  std::atomic<std::int64_t> dropped_without_ring_ = 0;
  std::atomic<std::size_t> source_count_ = 0;
  std::array<std::atomic<Source*>, kSourcesMax> sources_{};
  // The lists below; never taken by record() but for a thread's first event.
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Source>> source_list_;
  // Shared with the threads that write: a thread may outlive the recorder, and the other way round.
  std::vector<std::shared_ptr<EventRing>> rings_;

  std::mutex drain_mutex_;  // one reader at a time; before mutex_
  std::vector<EventRing*> drained_rings_;
};

}  // namespace tessera::metrics
