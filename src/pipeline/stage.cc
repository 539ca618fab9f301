#include "pipeline/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/guarded.h"

namespace tessera::pipeline {
namespace {

constexpr Nanoseconds kMemory = 8;  // batches that `lately` looks back, about

}  // namespace

thread_local Stage::Worker* Stage::worker_of_this_thread = nullptr;

Stage::Stage(StageConfig config)
    : config_(std::move(config)), queue_(config_.capacity, config_.keeper != nullptr) {
  TESSERA_CHECK((config_.function == nullptr) != (config_.keeper == nullptr),
                "a stage has a function or a keeper");
  TESSERA_CHECK(config_.batch >= 1 && config_.batch <= kBatchMax, "batch", config_.batch);
}

Stage::~Stage() { join(); }

Status Stage::start(Loop loop, std::function<void()> wake) {
  loop_ = std::move(loop);
  wake_ = std::move(wake);
  return set_threads(config_.threads);
}

Status Stage::add_worker() {
  workers_.push_back(std::make_unique<Worker>());
  try {
    workers_.back()->thread = std::thread([this, own = workers_.back().get()] {
      worker_of_this_thread = own;
      loop_(own->leave);
      // With the lock: no counters() has counted this thread beyond the time at which it goes.
      const std::lock_guard lock(mutex_);
      own->gone_at = now();
      own->gone = true;
    });
    return {};
  } catch (const std::system_error& error) {
    workers_.pop_back();
    return Error{ErrorCode::kUnavailable,
                 fmt::format("stage '{}': the system has no thread beyond {} of it ({}); use fewer",
                             config_.name, workers_.size(), error.what())};
  } catch (...) {
    workers_.pop_back();
    throw;
  }
}

Status Stage::set_threads(int threads) {
  TESSERA_CHECK(threads >= 1 && threads <= kThreadsMax, "threads", threads);
  Status added;
  {
    const std::lock_guard lock(mutex_);
    reap();
    while (added.ok() && static_cast<int>(workers_.size()) < threads) {
      added = guarded("a thread of stage '" + config_.name + "'", [this] { return add_worker(); });
    }
    if (!added.ok()) threads = this->threads();
    while (static_cast<int>(workers_.size()) > threads) {
      workers_.back()->leave.store(true, std::memory_order_relaxed);
      leaving_.splice(leaving_.end(), workers_, std::prev(workers_.end()));
    }
    const std::lock_guard kept(kept_mutex_);
    count_kept(now());
    threads_.store(threads, std::memory_order_relaxed);
  }
  wake_();
  return added;
}

void Stage::reap() {
  leaving_.remove_if([this](const std::unique_ptr<Worker>& worker) {
    if (!worker->gone) return false;
    worker->thread.join();  // which has released the lock
    busy_before_ += worker->time.value();
    thread_time_before_ += worker->gone_at - worker->born;
    return true;
  });
}

void Stage::join() {
  std::list<std::unique_ptr<Worker>> all;
  {
    const std::lock_guard lock(mutex_);
    all.splice(all.end(), workers_);
    all.splice(all.end(), leaving_);
  }
  for (const auto& worker : all) worker->thread.join();  // they take the lock when they go
}

Nanoseconds Stage::run(std::span<const PacketPtr> batch, Nanoseconds begin) {
  Worker* const worker = worker_of_this_thread;  // null: a test calls
  running_.fetch_add(1, std::memory_order_relaxed);
  if (worker != nullptr) worker->time.begin(begin);
  try {
    config_.function->run(batch);
  } catch (...) {
    // How far it came is not known.
    for (const PacketPtr& packet : batch) packet->fail_with_exception();
  }
  const Nanoseconds end = now();
  if (worker != nullptr) worker->time.end(end);
  running_.fetch_sub(1, std::memory_order_relaxed);
  const auto count = static_cast<std::int64_t>(batch.size());
  const Nanoseconds each = std::max<Nanoseconds>(1, (end - begin) / count);
  const Nanoseconds lately = lately_.load(std::memory_order_relaxed);
  // Another thread's batch may be lost to it, which does not matter.
  lately_.store(lately == 0 ? each : std::max<Nanoseconds>(1, lately + (each - lately) / kMemory),
                std::memory_order_relaxed);
  packets_.fetch_add(count, std::memory_order_relaxed);
  batches_.fetch_add(1, std::memory_order_relaxed);
  return end;
}

bool Stage::worth_sweeping() {
  if (queue_.size() == 0) return false;
  if (16 * (sweeps_asked_.fetch_add(1, std::memory_order_relaxed) + 1) < queue_.size()) {
    return false;
  }
  sweeps_asked_.store(0, std::memory_order_relaxed);
  return true;
}

void Stage::count_kept(Nanoseconds now) const {
  kept_busy_ += std::min(kept_, threads()) * (now - kept_counted_);
  kept_counted_ = now;
}

void Stage::keep() {
  const std::lock_guard lock(kept_mutex_);
  count_kept(now());
  ++kept_;
}

void Stage::let_go() {
  {
    const std::lock_guard lock(kept_mutex_);
    count_kept(now());
    --kept_;
  }
  packets_.fetch_add(1, std::memory_order_relaxed);
  batches_.fetch_add(1, std::memory_order_relaxed);
}

std::size_t Stage::batch() const {
  if (config_.grain == 0) return config_.batch;
  const Nanoseconds lately = lately_.load(std::memory_order_relaxed);
  if (lately == 0) return 1;
  return static_cast<std::size_t>(std::clamp<std::int64_t>(
      config_.grain / lately, 1, static_cast<std::int64_t>(config_.batch)));
}

StageCounters Stage::counters() const {
  int kept = 0;
  Nanoseconds kept_busy = 0;
  {
    const std::lock_guard lock(kept_mutex_);
    count_kept(now());
    kept = kept_;
    kept_busy = kept_busy_;
  }
  const std::lock_guard lock(mutex_);
  Nanoseconds busy = busy_before_, thread_time = thread_time_before_;
  int working = 0, there = 0;
  for (const auto* const list : {&workers_, &leaving_}) {
    for (const std::unique_ptr<Worker>& worker : *list) {
      const Nanoseconds value = worker->time.value();
      busy += value;
      if (value < 0) ++working;
      thread_time += (worker->gone ? worker->gone_at : 0) - worker->born;
      if (!worker->gone) ++there;
    }
  }
  const Nanoseconds time = now();  // after all beginnings
  return {.threads = threads(),
          .queued = queue_.size(),
          .capacity = queue_.capacity(),
          .packets = packets_.load(std::memory_order_relaxed),
          .batches = batches_.load(std::memory_order_relaxed),
          .busy = busy + working * time + kept_busy,
          .thread_time = thread_time + there * time,
          .running = running_.load(std::memory_order_relaxed) + std::min(kept, threads())};
}

}  // namespace tessera::pipeline
