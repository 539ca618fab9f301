#include "runtime/tuner.h"

#include <new>
#include <system_error>

#include "pipeline/own_thread.h"

namespace tessera::runtime {

PeriodLoad period_between(const PeriodLoad& before, const PeriodLoad& now) {
  PeriodLoad load = now;
  load.seconds -= before.seconds;
  load.finished -= before.finished;
  for (std::size_t s = 0; s < load.stages.size(); ++s) {
    load.stages[s].busy_seconds -= before.stages[s].busy_seconds;
    load.stages[s].thread_seconds -= before.stages[s].thread_seconds;
    load.stages[s].kernel_seconds -= before.stages[s].kernel_seconds;
    load.stages[s].tasks -= before.stages[s].tasks;
  }
  return load;
}

Tuner::~Tuner() { (void)set_on(false); }

Status Tuner::set_on(bool on) {
  // The tuner's own thread can only tell itself to stop: it would wait for its own end, or for a
  // thread that waits for it.
  const bool own = pipeline::OwnThread::owner() == this;
  std::unique_lock switching(switching_, std::defer_lock);
  if (!own) switching.lock();
  {
    const std::lock_guard lock(mutex_);
    if (on && !stop_) return {};
    if (on && own) {
      return Error{ErrorCode::kUnavailable,
                   "tuning that was switched off is not switched on again by its own log"};
    }
    stop_ = true;
    stopped_.notify_all();
  }
  if (own) return {};
  if (thread_.joinable()) thread_.join();
  if (!on) return {};
  stop_ = false;  // no other thread is there
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    stop_ = true;
    return Error{ErrorCode::kUnavailable,
                 std::string("the system has no thread for tuning: ") + error.what()};
  }
  return {};
}

bool Tuner::told_to_stop(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return stopped_.wait_for(lock, patience, [this] { return stop_; });
}

void Tuner::run() {
  const pipeline::OwnThread mark(this);
  for (bool told = false; !told;) {
    try {
      balance();
      told = true;
    } catch (const std::bad_alloc&) {
      told = told_to_stop(std::chrono::milliseconds(50));  // and begins anew
    }
  }
}

void Tuner::balance() {
  Balancer balancer;
  PeriodLoad before = tunable_.totals();
  while (!told_to_stop(std::chrono::milliseconds(50))) {
    const PeriodLoad now = tunable_.totals();
    const PeriodLoad load = period_between(before, now);
    if (!Balancer::enough(load.seconds, load.finished)) continue;
    before = now;
    const Balancer::Changes changes = balancer.decide(load);
    if (changes.empty()) continue;
    for (const ThreadChange& change : changes) tunable_.change(change);
    // What was under way under the old setting is not counted.
    if (told_to_stop(std::chrono::milliseconds(100))) return;
    before = tunable_.totals();
  }
}

}  // namespace tessera::runtime
