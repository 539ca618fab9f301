#include "runtime/deadline_clock.h"

#include <algorithm>
#include <chrono>

#include "base/guarded.h"
#include "pipeline/own_thread.h"

namespace tessera::runtime {
namespace {

constexpr auto kLater = [](const auto& a, const auto& b) { return a.deadline > b.deadline; };

}  // namespace

DeadlineClock::~DeadlineClock() { stop(); }

void DeadlineClock::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void DeadlineClock::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

Status DeadlineClock::prepare() {
  return guarded("watching a deadline", [this]() -> Status {
    const std::lock_guard lock(mutex_);
    start();
    const std::size_t wanted = heap_.size() + expected_ + 1;
    if (wanted > heap_.capacity()) heap_.reserve(std::max(wanted, 2 * heap_.capacity()));
    ++expected_;
    return {};
  });
}

pipeline::Nanoseconds DeadlineClock::next() const {
  pipeline::Nanoseconds time = heap_.empty() ? pipeline::kNoDeadline : heap_.front().deadline;
  for (const SetAlarm& set : alarms_) time = std::min(time, set.time);
  return time;
}

void DeadlineClock::watch(JobReference job, pipeline::Nanoseconds deadline) {
  const std::lock_guard lock(mutex_);
  --expected_;
  if (heap_.size() >= prune_at_) prune();
  const bool earliest = deadline < next();
  heap_.push_back({deadline, std::move(job)});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
  if (earliest) changed_.notify_all();
}

bool DeadlineClock::set_alarm(Alarm& alarm, pipeline::Nanoseconds time) {
  const std::lock_guard lock(mutex_);
  if (stop_) return false;
  try {
    start();
    alarms_.reserve(alarms_.size() + 1);
  } catch (...) {  // no thread, or no memory
    return false;
  }
  const bool earliest = time < next();
  const auto set = std::find_if(alarms_.begin(), alarms_.end(),
                                [&](const SetAlarm& other) { return other.alarm == &alarm; });
  if (set == alarms_.end()) {
    alarms_.push_back({time, &alarm});
  } else {
    set->time = std::min(set->time, time);
  }
  if (earliest) changed_.notify_all();
  return true;
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
    const pipeline::Nanoseconds due = next();
    if (due == pipeline::kNoDeadline) {
      changed_.wait(lock);
      continue;
    }
    if (due > pipeline::now()) {
      changed_.wait_until(lock,
                          std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due)));
      continue;
    }
    if (!heap_.empty() && heap_.front().deadline == due) {
      std::pop_heap(heap_.begin(), heap_.end(), kLater);
      const Entry entry = std::move(heap_.back());
      heap_.pop_back();
      lock.unlock();
      // Settling may call the application back.
      entry.job->pass_deadline();
      lock.lock();
      continue;
    }
    const auto set = std::find_if(alarms_.begin(), alarms_.end(),
                                  [due](const SetAlarm& other) { return other.time == due; });
    Alarm& alarm = *set->alarm;
    alarms_.erase(set);
    lock.unlock();
    alarm.ring();
    lock.lock();
  }
}

}  // namespace tessera::runtime
