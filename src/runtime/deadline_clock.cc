#include "runtime/deadline_clock.h"

#include <algorithm>
#include <chrono>

#include "base/guarded.h"
#include "pipeline/own_thread.h"

namespace tessera::runtime {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) { return a.deadline > b.deadline; };

}  // namespace

DeadlineClock::~DeadlineClock() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status DeadlineClock::prepare() {
  return guarded("watching a deadline", [this]() -> Status {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    const std::size_t wanted = heap_.size() + expected_ + 1;
    if (wanted > heap_.capacity()) heap_.reserve(std::max(wanted, 2 * heap_.capacity()));
    ++expected_;
    return {};
  });
}

void DeadlineClock::watch(JobReference job, pipeline::Nanoseconds deadline) {
  const std::lock_guard lock(mutex_);
  --expected_;
  if (heap_.size() >= prune_at_) prune();
  const bool earliest = heap_.empty() || deadline < heap_.front().deadline;
  heap_.push_back({deadline, std::move(job)});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
  if (earliest) changed_.notify_all();
}

// Most tasks are done long before: their entries go when there are too many.
void DeadlineClock::prune() {
  std::erase_if(heap_, [](const Entry& entry) { return entry.job->settled(); });
  std::make_heap(heap_.begin(), heap_.end(), kLater);
  prune_at_ = std::max<std::size_t>(64, 2 * heap_.size());
}

void DeadlineClock::run() {
  const pipeline::OwnThread mark(this);
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (heap_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const pipeline::Nanoseconds now = pipeline::now();
    if (heap_.front().deadline > now) {
      changed_.wait_until(lock, std::chrono::steady_clock::time_point(
                                    std::chrono::nanoseconds(heap_.front().deadline)));
      continue;
    }
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    const Entry entry = std::move(heap_.back());
    heap_.pop_back();
    lock.unlock();
    // Settling may call the application back.
    entry.job->pass_deadline();
    lock.lock();
  }
}

}  // namespace tessera::runtime
