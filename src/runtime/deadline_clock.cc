#include "runtime/deadline_clock.h"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "base/guarded.h"
#include "pipeline/own_thread.h"

namespace tessera::runtime {
namespace {

// As many callbacks of late tasks may take long at a time before deadlines wait for them.
constexpr std::size_t kThreadsMax = 32;

constexpr auto kLater = [](const auto& a, const auto& b) { return a.deadline > b.deadline; };

}  // namespace

DeadlineClock::~DeadlineClock() { stop(); }

void DeadlineClock::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
    turn_.notify_all();
  }
  // None is added any more.
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void DeadlineClock::start() {
  if (threads_.empty()) add_thread();
}

void DeadlineClock::add_thread() {
  if (stop_) return;
  threads_.reserve(threads_.size() + 1);
  threads_.emplace_back([this] { run(); });
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
  std::vector<Entry> over;  // what their tasks carry may call anything: without the lock held
  const std::lock_guard lock(mutex_);
  --expected_;
  if (heap_.size() >= prune_at_) prune(over);
  const bool earliest = deadline < next();
  heap_.push_back({deadline, std::move(job)});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
  if (earliest) changed_.notify_all();
}

std::optional<pipeline::Nanoseconds> DeadlineClock::set_alarm(Alarm& alarm,
                                                              pipeline::Nanoseconds time) {
  const std::lock_guard lock(mutex_);
  if (stop_) return std::nullopt;
  try {
    start();
    alarms_.reserve(alarms_.size() + 1);
  } catch (...) {  // no thread, or no memory
    return std::nullopt;
  }
  const bool earliest = time < next();
  const auto set = std::find_if(alarms_.begin(), alarms_.end(),
                                [&](const SetAlarm& other) { return other.alarm == &alarm; });
  if (set == alarms_.end()) {
    alarms_.push_back({time, &alarm});
  } else {
    time = set->time = std::min(set->time, time);
  }
  if (earliest) changed_.notify_all();
  return time;
}

// Most tasks are done long before: their entries go when there are too many.
void DeadlineClock::prune(std::vector<Entry>& over) {
  const auto first = std::partition(heap_.begin(), heap_.end(),
                                    [](const Entry& entry) { return !entry.job->done(); });
  try {
    over.reserve(static_cast<std::size_t>(heap_.end() - first));
    over.assign(std::move_iterator(first), std::move_iterator(heap_.end()));
    heap_.erase(first, heap_.end());
  } catch (...) {  // no memory: they stay until their time comes
  }
  std::make_heap(heap_.begin(), heap_.end(), kLater);
  prune_at_ = std::max<std::size_t>(64, 2 * heap_.size());
}

void DeadlineClock::hand_over_the_watch() {
  watched_ = false;
  if (waiting_ > 0) return turn_.notify_one();
  if (threads_.size() >= kThreadsMax) return;
  try {
    add_thread();
  } catch (...) {  // no thread, or no memory: this one comes back
  }
}

// Settling may call the application back.
void DeadlineClock::end_first_task(std::unique_lock<std::mutex>& lock) {
  std::pop_heap(heap_.begin(), heap_.end(), kLater);
  Entry entry = std::move(heap_.back());
  heap_.pop_back();
  if (entry.job->done()) {
    lock.unlock();
    entry.job.reset();
    lock.lock();
    return;
  }
  hand_over_the_watch();
  lock.unlock();
  entry.job->pass_deadline();
  entry.job.reset();
  lock.lock();
  ++waiting_;
  turn_.wait(lock, [this] { return stop_ || !watched_; });
  --waiting_;
  watched_ = true;
}

void DeadlineClock::ring_alarm(pipeline::Nanoseconds due, std::unique_lock<std::mutex>& lock) {
  const auto set = std::find_if(alarms_.begin(), alarms_.end(),
                                [due](const SetAlarm& other) { return other.time == due; });
  Alarm& alarm = *set->alarm;
  alarms_.erase(set);
  lock.unlock();
  alarm.ring();
  lock.lock();
}

void DeadlineClock::run() {
  const pipeline::OwnThread mark(this);
  // Wakes up within microseconds of the time asked for, not within the usual 50.
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  std::unique_lock lock(mutex_);
  ++waiting_;
  turn_.wait(lock, [this] { return stop_ || !watched_; });
  --waiting_;
  watched_ = true;
  while (!stop_) {
    const pipeline::Nanoseconds due = next();
    if (due == pipeline::kNoDeadline) {
      changed_.wait(lock);
    } else if (due > pipeline::now()) {
      changed_.wait_until(lock,
                          std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due)));
    } else if (!heap_.empty() && heap_.front().deadline == due) {
      end_first_task(lock);
    } else {
      ring_alarm(due, lock);
    }
  }
}

}  // namespace tessera::runtime
