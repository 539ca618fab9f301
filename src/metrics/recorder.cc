#include "metrics/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"

namespace tessera::metrics {
namespace {

// The rings that a thread has taken, one for each recorder it wrote to. At the thread's end they
// become free for other threads.
struct RingsOfThread {
  struct Taken {
    std::uint64_t recorder;
    std::shared_ptr<EventRing> ring;  // null: the recorder had none left
  };
  std::vector<Taken> taken;

  ~RingsOfThread() {
    for (const Taken& each : taken) {
      if (each.ring) each.ring->leave();
    }
  }
};

thread_local RingsOfThread rings_of_thread;

// The one it used last, found without a search; plain data, so that reading it needs no guard.
struct LastRing {
  std::uint64_t recorder = 0;  // no recorder has the identity 0
  EventRing* ring = nullptr;
};
constinit thread_local LastRing last_ring;

// Rings of threads that have ended, kept with their slots for those that begin.
constexpr int kSpareRings = 16;
// Of ring_events, the size of rings beyond the whole ones: 1 / kPartOfRing.
constexpr std::uint64_t kPartOfRing = 4;

std::uint64_t next_identity() {
  static std::atomic<std::uint64_t> identities = 0;
  return identities.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

const char* name_of(SourceKind kind) {
  static constexpr std::array<const char*, kSourceKinds> kNames = {"stage", "kernel", "device",
                                                                   "queue", "tasks"};
  return kNames.at(static_cast<std::size_t>(kind));
}

Recorder::Recorder(const RecorderOptions& options)
    : identity_(next_identity()),
      start_(std::chrono::steady_clock::now()),
      options_(options),
      recording_(options.recording) {
  TESSERA_CHECK(
      options.ring_events >= kPartOfRing && (options.ring_events & (options.ring_events - 1)) == 0,
      "a ring of {} events, allowed powers of two from {} on", options.ring_events, kPartOfRing);
}

Recorder::~Recorder() = default;

Result<SourceId> Recorder::add_source(const SourceDescription& description) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const std::unique_ptr<Source>& source) {
    const SourceDescription& known = source->description;
    return known.kind == description.kind && known.name == description.name &&
           known.device == description.device;
  };
  auto found = std::find_if(source_list_.begin(), source_list_.end(), same);
  if (found == source_list_.end()) {
    if (source_list_.size() == kSourcesMax) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("metrics: '{}' is source {}, at most {} can be distinguished; close "
                               "runtimes that are not used",
                               description.name, kSourcesMax + 1, kSourcesMax)};
    }
    source_list_.push_back(std::make_unique<Source>());
    found = source_list_.end() - 1;
    (*found)->description = description;
    const std::size_t index = source_list_.size() - 1;
    sources_[index].store(found->get(), std::memory_order_release);
    source_count_.store(source_list_.size(), std::memory_order_release);
  }
  (*found)->threads = description.threads;
  (*found)->capacity = description.capacity;
  return SourceId{static_cast<std::uint16_t>(found - source_list_.begin())};
}

void Recorder::set_threads(SourceId source, int threads) {
  sources_[source.index].load(std::memory_order_acquire)->threads = threads;
  const std::int64_t at = now();
  record({.kind = EventKind::kControlChange,
          .source = source,
          .begin_ns = at,
          .end_ns = at,
          .value = threads});
}

EventRing* Recorder::ring_of_caller() noexcept {
  return last_ring.recorder == identity_ ? last_ring.ring : ring_or_none();
}

// Also while recording is off: the work may have begun before.
void Recorder::end_work() {
  if (last_ring.recorder == identity_) {
    if (last_ring.ring != nullptr) last_ring.ring->end_work();
    return;
  }
  for (const auto& each : rings_of_thread.taken) {
    if (each.recorder == identity_ && each.ring) each.ring->end_work();
  }
}

void Recorder::write(const Event& event) {
  EventRing* const ring = ring_of_caller();
  if (ring == nullptr) {
    dropped_without_ring_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring->push(event);
}

// Recording must not fail the caller: where memory ends, events are lost.
EventRing* Recorder::ring_or_none() noexcept {
  try {
    return ring_of_this_thread();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

EventRing* Recorder::ring_of_this_thread() {
  std::vector<RingsOfThread::Taken>& taken = rings_of_thread.taken;
  auto mine = std::find_if(taken.begin(), taken.end(),
                           [&](const auto& each) { return each.recorder == identity_; });
  if (mine == taken.end()) {
    // Rings without other owners belonged to recorders that are gone.
    std::erase_if(taken, [](const auto& each) { return !each.ring || each.ring.use_count() == 1; });
    taken.reserve(taken.size() + 1);
    taken.push_back({identity_, take_ring()});
    mine = taken.end() - 1;
  }
  last_ring = {identity_, mine->ring.get()};
  return mine->ring.get();
}

std::shared_ptr<EventRing> Recorder::take_ring() {
  const std::lock_guard lock(mutex_);
  for (const bool with_slots : {true, false}) {
    for (const std::shared_ptr<EventRing>& ring : rings_) {
      if (ring->has_slots() == with_slots && ring->try_take()) return ring;
    }
  }
  if (std::ssize(rings_) == options_.rings_max) return nullptr;
  const bool whole = std::ssize(rings_) < options_.whole_rings;
  const std::uint64_t events = options_.ring_events / (whole ? 1 : kPartOfRing);
  auto ring = std::make_shared<EventRing>(events);
  ring->try_take();
  rings_.push_back(ring);
  return ring;
}

void Recorder::release_spare_rings() {
  int spare = 0;
  for (const std::shared_ptr<EventRing>& ring : rings_) {
    if (!ring->has_slots() || !ring->free()) continue;
    if (++spare > kSpareRings) ring->release_slots();
  }
}

double Recorder::drain(const Take& take) {
  const std::lock_guard draining(drain_mutex_);
  {
    // Rings only become more. A thread's first event does not wait for `take`.
    const std::lock_guard lock(mutex_);
    release_spare_rings();
    for (std::size_t i = drained_rings_.size(); i < rings_.size(); ++i) {
      drained_rings_.push_back(rings_[i].get());
    }
  }
  double fullest = 0;
  for (std::size_t i = 0; i < drained_rings_.size(); ++i) {
    const auto take_of_ring = [&](std::span<const Event> events) { take(i, events); };
    const std::uint64_t drained = drained_rings_[i]->drain(take_of_ring);
    fullest = std::max(
        fullest, static_cast<double>(drained) / static_cast<double>(drained_rings_[i]->capacity()));
  }
  return fullest;
}

std::vector<Recorder::Work> Recorder::works() const {
  std::vector<Work> works;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    const std::optional<EventRing::Work> work = rings_[i]->work();
    if (work) works.push_back({i, work->source, work->begin_ns});
  }
  for (std::size_t i = 0; i < source_list_.size(); ++i) {
    for (const auto& open : source_list_[i]->open) {
      const std::int64_t since = open.load(std::memory_order_relaxed);
      if (since == kNotRunning) continue;
      works.push_back({kNoRing, {static_cast<std::uint16_t>(i)}, since});
    }
  }
  return works;
}

int Recorder::open_work(SourceId source, std::int64_t begin_ns) {
  if (!recording()) return kNoWork;
  auto& open = sources_[source.index].load(std::memory_order_acquire)->open;
  for (std::size_t work = 0; work < open.size(); ++work) {
    std::int64_t free = kNotRunning;
    if (open[work].load(std::memory_order_relaxed) == kNotRunning &&
        open[work].compare_exchange_strong(free, begin_ns)) {
      return static_cast<int>(work);
    }
  }
  return kNoWork;
}

void Recorder::close_work(SourceId source, int work) {
  if (work == kNoWork) return;
  sources_[source.index]
      .load(std::memory_order_acquire)
      ->open[static_cast<std::size_t>(work)]
      .store(kNotRunning, std::memory_order_relaxed);
}

std::vector<Recorder::SourceState> Recorder::sources() const {
  const std::lock_guard lock(mutex_);
  std::vector<SourceState> states;
  states.reserve(source_list_.size());
  for (const std::unique_ptr<Source>& source : source_list_) {
    states.push_back({source->description, source->running_since});
    states.back().description.threads = source->threads;
    states.back().description.capacity = source->capacity;
  }
  return states;
}

std::int64_t Recorder::dropped() const {
  const std::lock_guard lock(mutex_);
  std::int64_t dropped = dropped_without_ring_;
  for (const std::shared_ptr<EventRing>& ring : rings_) dropped += ring->dropped();
  return dropped;
}

std::int64_t Recorder::ring_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t events = 0;
  for (const std::shared_ptr<EventRing>& ring : rings_) {
    if (ring->has_slots()) events += ring->capacity();
  }
  return static_cast<std::int64_t>(events * sizeof(Event));
}

}  // namespace tessera::metrics
