#include "runtime/tuner.h"

#include <chrono>

namespace tessera::runtime {

PeriodLoad period_between(const PeriodLoad& before, const PeriodLoad& now) {
  PeriodLoad load = now;
  load.seconds -= before.seconds;
  load.finished -= before.finished;
  for (std::size_t s = 0; s < load.stages.size(); ++s) {
    load.stages[s].busy_seconds -= before.stages[s].busy_seconds;
    load.stages[s].kernel_seconds -= before.stages[s].kernel_seconds;
    load.stages[s].tasks -= before.stages[s].tasks;
  }
  return load;
}

void Tuner::set_on(bool on) {
  const std::lock_guard switching(switching_);
  if (on == thread_.joinable()) return;
  if (on) {
    stop_ = false;
    thread_ = std::thread([this] { run(); });
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    stopped_.notify_all();
  }
  thread_.join();
}

void Tuner::run() {
  Balancer balancer;
  PeriodLoad before = tunable_.totals();
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, std::chrono::milliseconds(50), [this] { return stop_; })) {
    const PeriodLoad now = tunable_.totals();
    const PeriodLoad load = period_between(before, now);
    if (!Balancer::enough(load.seconds, load.finished)) continue;
    before = now;
    const Balancer::Changes changes = balancer.decide(load);
    if (changes.empty()) continue;
    for (const ThreadChange& change : changes) tunable_.change(change);
    // What was under way under the old setting is not counted.
    if (stopped_.wait_for(lock, std::chrono::milliseconds(100), [this] { return stop_; })) return;
    before = tunable_.totals();
  }
}

}  // namespace tessera::runtime
