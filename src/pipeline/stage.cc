#include "pipeline/stage.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::pipeline {

Stage::Stage(StageConfig config) : config_(std::move(config)), queue_(config_.capacity) {
  TESSERA_CHECK(config_.function != nullptr, "a stage without a function");
  TESSERA_CHECK(config_.batch >= 1 && config_.batch <= kBatchMax, "batch", config_.batch);
}

Stage::~Stage() { join(); }

void Stage::start(Loop loop, std::function<void()> wake) {
  loop_ = std::move(loop);
  wake_ = std::move(wake);
  set_threads(config_.threads);
}

void Stage::set_threads(int threads) {
  TESSERA_CHECK(threads >= 1 && threads <= kThreadsMax, "threads", threads);
  {
    const std::lock_guard lock(mutex_);
    reap();
    while (static_cast<int>(workers_.size()) < threads) {
      workers_.push_back(std::make_unique<Worker>());
      Worker* const worker = workers_.back().get();
      worker->thread = std::thread([this, worker] {
        loop_(worker->leave);
        worker->gone.store(true, std::memory_order_release);
      });
    }
    while (static_cast<int>(workers_.size()) > threads) {
      workers_.back()->leave.store(true, std::memory_order_relaxed);
      leaving_.splice(leaving_.end(), workers_, std::prev(workers_.end()));
    }
    thread_time_ += (threads_.load(std::memory_order_relaxed) - threads) * now();
    threads_.store(threads, std::memory_order_relaxed);
  }
  wake_();
}

void Stage::reap() {
  leaving_.remove_if([](const std::unique_ptr<Worker>& worker) {
    if (!worker->gone.load(std::memory_order_acquire)) return false;
    worker->thread.join();
    return true;
  });
}

void Stage::join() {
  const std::lock_guard lock(mutex_);
  leaving_.splice(leaving_.end(), workers_);
  for (const auto& worker : leaving_) worker->thread.join();
  leaving_.clear();
}

Nanoseconds Stage::run(std::span<const PacketPtr> batch, Nanoseconds begin) {
  running_.fetch_add(1, std::memory_order_relaxed);
  config_.function->run(batch);
  running_.fetch_sub(1, std::memory_order_relaxed);
  const Nanoseconds end = now();
  busy_.fetch_add(end - begin, std::memory_order_relaxed);
  packets_.fetch_add(static_cast<std::int64_t>(batch.size()), std::memory_order_relaxed);
  batches_.fetch_add(1, std::memory_order_relaxed);
  return end;
}

std::size_t Stage::batch() const {
  if (config_.grain == 0) return config_.batch;
  const Nanoseconds busy = busy_.load(std::memory_order_relaxed);
  const std::int64_t fitting =
      config_.grain * packets_.load(std::memory_order_relaxed) / std::max<Nanoseconds>(busy, 1);
  return static_cast<std::size_t>(
      std::clamp<std::int64_t>(fitting, 1, static_cast<std::int64_t>(config_.batch)));
}

StageCounters Stage::counters() const {
  const std::lock_guard lock(mutex_);
  return {.threads = threads(),
          .queued = queue_.size(),
          .capacity = queue_.capacity(),
          .packets = packets_.load(std::memory_order_relaxed),
          .batches = batches_.load(std::memory_order_relaxed),
          .busy = busy_.load(std::memory_order_relaxed),
          .thread_time = thread_time_ + threads() * now(),
          .running = running_.load(std::memory_order_relaxed)};
}

}  // namespace tessera::pipeline
