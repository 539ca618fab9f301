#include "engines/data_control/step_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "engines/data_control/task_hazard.h"

namespace tessera::engines {

StepEngine::StepEngine(const Wiring& wiring) : wiring_(wiring), in_flight_(wiring.in_flight_max) {}

void StepEngine::reset(bool timing_only) {
  timing_only_ = timing_only;
  active_ = false;
  has_next_ = false;
  next_configured_at_ = configured_at_ = shadow_begin_ = spaced_at_ = drained_at_ = 0;
  next_step_ = 0;
  free_at_ = 0;
  in_flight_.clear();
  tasks_draining_ = 0;
  reads_previous_ = false;
  previous_ = nullptr;
  account_.reset();
}

void StepEngine::enter(Cycles now, Activity activity) {
  EngineTaskTimes* times = nullptr;
  if (active_) {
    times = &control().times(task_);
  } else if (!in_flight_.empty()) {
    times = &control().times(in_flight_.front().task);
  }
  account_.enter(now, activity, times);
}

Cycles StepEngine::step(Cycles now) {
  finish_due(now);
  if (free_at_ <= now) {
    const bool waiting = has_next_ || wiring_.tasks->can_pop(now);
    if (!active_ && waiting && tasks_draining_ < 2) begin_task(now);
    if (active_ && free_at_ <= now) free_at_ = std::max(free_at_, begin_step(now));
  }
  if (wiring_.second_registers && active_) configure_next(now);
  Cycles next = in_flight_.empty() ? kNever : in_flight_.front().due;
  if (free_at_ > now) {
    enter(now, Activity::kBusy);
    next = std::min(next, free_at_);
  } else if (!active_) {
    enter(now, in_flight_.empty() ? Activity::kIdle : Activity::kBusy);
    if (wiring_.tasks->can_pop(now) && tasks_draining_ < 2) next = std::min(next, now + 1);
  }
  return next;
}

void StepEngine::finish_due(Cycles now) {
  while (!in_flight_.empty() && in_flight_.front().due <= now) {
    const InFlight done = in_flight_.front();
    in_flight_.pop();
    if (!timing_only_ && !control().stopped(done.task)) execute(done.task, done.step);
    if (done.last) {
      ++account_.counters.tasks;
      drained_at_ = now;
      --tasks_draining_;
      if (tasks_draining_ == 0) previous_ = nullptr;
    }
    control().finish_step(done.task, done.step, done.begin, done.due);
  }
}

void StepEngine::begin_task(Cycles now) {
  configured_at_ = has_next_ ? next_configured_at_ : now + wiring_.start;
  task_ = has_next_ ? next_task_ : wiring_.tasks->pop(now);
  has_next_ = false;
  active_ = true;
  next_step_ = 0;
  const isa::TaskDescriptor& descriptor = *control().task(task_).descriptor;
  reads_previous_ =
      previous_ != nullptr && reads_results_of(descriptor, *previous_, wiring_.partitions);
  plan_ = plan(descriptor);
  free_at_ = std::max(now, configured_at_);
}

void StepEngine::configure_next(Cycles now) {
  if (has_next_ || !wiring_.tasks->can_pop(now)) return;
  next_task_ = wiring_.tasks->pop(now);
  has_next_ = true;
  next_configured_at_ = std::max(now, configured_at_) + wiring_.start;
}

Cycles StepEngine::preparation_left(Cycles now) {
  if (!wiring_.second_registers) return plan_.first;
  Cycles from = std::max({configured_at_, shadow_begin_,
                          control().first_step_met_at(task_, plan_.first_from_kernels)});
  if (!plan_.first_from_kernels) from = std::max(from, drained_at_);
  return std::max<Cycles>({0, from + plan_.first - now, spaced_at_ - now});
}

bool StepEngine::waits_for_drain() const {
  return tasks_draining_ > 1 || (tasks_draining_ == 1 && reads_previous_);
}

Cycles StepEngine::begin_step(Cycles now) {
  if (in_flight_.full() || waits_for_drain()) {
    enter(now, Activity::kBusy);
    return now;
  }
  if (!control().grant(task_, next_step_, now)) {
    enter(now, control().blocked_by(wiring_.kind, now));
    return now;
  }
  const isa::TaskDescriptor& descriptor = *control().task(task_).descriptor;
  const StepCost step_cost = cost(descriptor, next_step_);
  const Cycles preparation = next_step_ == 0 ? preparation_left(now) : 0;
  const Cycles end = now + preparation + step_cost.occupancy;
  const bool last = next_step_ + 1 == control().task(task_).steps;
  in_flight_.push({end + plan_.drain, now, task_, next_step_, last});
  ++account_.counters.steps;
  account_.counters.macs += step_cost.macs;
  ++next_step_;
  if (last) {
    enter(now, Activity::kBusy);
    active_ = false;
    ++tasks_draining_;
    shadow_begin_ = end - step_cost.shadow;
    spaced_at_ = shadow_begin_ + step_cost.spacing;
    previous_ = &descriptor;
  }
  return end;
}

std::string StepEngine::describe() const {
  const std::string name = isa::engine_kind_name(wiring_.kind);
  const std::size_t queued = wiring_.tasks->size() + (has_next_ ? 1 : 0);
  if (!active_) {
    return fmt::format("{}: {} steps in flight, {} tasks queued", name, in_flight_.size(), queued);
  }
  return fmt::format("{}: {} step {} {}, {} tasks queued", name, wiring_.control->name(task_),
                     next_step_ + 1, wiring_.control->describe_wait(wiring_.kind), queued);
}

}  // namespace tessera::engines
