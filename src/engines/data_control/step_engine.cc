#include "engines/data_control/step_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/task_hazard.h"

namespace tessera::engines {

StepEngine::StepEngine(const Wiring& wiring) : wiring_(wiring), in_flight_(wiring.in_flight_max) {}

void StepEngine::reset(bool timing_only) {
  timing_only_ = timing_only;
  active_ = offered_ = offer_known_ = false;
  used_ = true;
  has_next_ = false;
  next_configured_at_ = configured_at_ = shadow_begin_ = spaced_at_ = drained_at_ = 0;
  next_step_ = 0;
  free_at_ = blocked_until_ = 0;
  in_flight_.clear();
  tasks_draining_ = 0;
  reads_previous_ = false;
  previous_ = nullptr;
  account_.reset();
}

void StepEngine::enter(Cycles now, Doing doing) {
  // A task's times are those of the engine that leads it.
  EngineTaskTimes* times = nullptr;
  if (active_) {
    if (share_.index == 0) times = &control().times(task_);
  } else if (!in_flight_.empty()) {
    // The step that occupies the engine is the one begun last, also while results of others drain.
    const InFlight& step = free_at_ > now ? in_flight_.back() : in_flight_.front();
    if (step.leads) times = &control().times(step.task);
  }
  account_.enter(now, doing, times);
}

Cycles StepEngine::step(Cycles now) {
  finish_due(now);
  if (free_at_ <= now && !offered_) {
    const bool waiting = has_next_ || wiring_.tasks->can_pop(now);
    if (!active_ && waiting && tasks_draining_ < 2) begin_task(now);
    if (active_ && free_at_ <= now) free_at_ = std::max(free_at_, begin_step(now));
  }
  // A task whose only step runs has no steps left, but its registers are still in use.
  const bool runs = active_ || free_at_ > now;
  if (wiring_.second_registers && runs && !offered_) configure_next(now);
  if (free_at_ > now) {
    enter(now, working(now));
  } else if (!active_ || offered_) {
    enter(now, in_flight_.empty() ? Activity::kIdle : Activity::kBusy);
  }
  return next_event(now);
}

Cycles StepEngine::next_event(Cycles now) const {
  const Cycles next = in_flight_.empty() ? kNever : in_flight_.front().due;
  if (blocked_until_ > now) return std::min(next, blocked_until_);
  if (free_at_ > now) return std::min(next, free_at_);
  if (!active_ && wiring_.tasks->can_pop(now) && tasks_draining_ < 2)
    return std::min(next, now + 1);
  return next;
}

void StepEngine::finish_due(Cycles now) {
  while (!in_flight_.empty() && in_flight_.front().due <= now) {
    const InFlight done = in_flight_.front();
    in_flight_.pop();
    if (done.leads && !timing_only_ && !control().stopped(done.task)) {
      compute(done.task, done.step);
    }
    if (done.last) {
      ++account_.counters.tasks;
      drained_at_ = now;
      --tasks_draining_;
      if (tasks_draining_ == 0) previous_ = nullptr;
    }
    control().trace_step(
        {done.task, wiring_.box, done.step, done.begin, done.due, done.blocked_ports});
    if (done.leads) control().finish_step(done.task, done.step, done.due);
  }
}

void StepEngine::compute(RunTaskId id, std::int64_t step) {
  execute(id, step);
  const StepValues came_to = values(id, step);
  EngineTaskTimes& times = control().times(id);
  times.extent = arith::further(times.extent, came_to.extent);
  times.accumulator_range |= came_to.flags.accumulator_range;
  const std::uint8_t traps = control().traps(id);
  if (traps == 0) return;
  const std::string met = exception(id, step, traps, came_to.flags);
  if (!met.empty()) control().raise(id, fmt::format("step {}: {}", step + 1, met));
}

void StepEngine::begin_task(Cycles now) {
  configured_at_ = has_next_ ? next_configured_at_ : now + wiring_.start;
  task_ = has_next_ ? next_task_ : wiring_.tasks->pop(now);
  has_next_ = false;
  active_ = true;
  next_step_ = 0;
  const isa::TaskDescriptor& descriptor = *control().task(task_).descriptor;
  reads_previous_ =
      previous_ != nullptr && isa::reads_results_of(descriptor, *previous_, wiring_.partitions);
  const BoxLayout::Range engines = control().layout().engines_of(descriptor);
  share_ = {.index = static_cast<int>(wiring_.box) - engines.first, .count = engines.count()};
  plan_ = plan(descriptor, share_);
  used_ = plan_.used || share_.index == 0;
  free_at_ = used_ ? std::max(now, configured_at_) : now;
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
  if (used_ && !control().ready(task_, next_step_, wiring_.box, now)) {
    enter(now, control().blocked_by(wiring_.box, now));
    return now;
  }
  if (share_.count > 1 || wiring_.ports_counted) {
    offered_ = true;
    offer_known_ = false;
    return now;
  }
  control().begin(task_, next_step_, now);
  return occupy(now, preparation(now), cost(*control().task(task_).descriptor, next_step_), {});
}

const StepEngine::StepCost& StepEngine::cost_of_offer() {
  if (!offer_known_) {
    offer_ = used_ ? cost(*control().task(task_).descriptor, next_step_) : StepCost{};
    offer_known_ = true;
  }
  return offer_;
}

ArrayStep StepEngine::alone() {
  const StepCost& cost = cost_of_offer();
  return {cost.occupancy, cost.moving_elements};
}

Cycles StepEngine::take_share(Cycles now, Cycles preparation, const PortShare& ports) {
  offered_ = false;
  const std::size_t before = in_flight_.size();
  free_at_ = occupy(now, preparation, cost_of_offer(), ports);
  const bool pushed = in_flight_.size() > before;
  const bool idle = !pushed && in_flight_.empty();
  enter(now, idle ? Activity::kIdle : working(now));
  if (wiring_.second_registers) configure_next(now);
  return pushed ? in_flight_.back().due : now;
}

Cycles StepEngine::occupy(Cycles now, Cycles preparation, const StepCost& step_cost,
                          const PortShare& ports) {
  const isa::TaskDescriptor& descriptor = *control().task(task_).descriptor;
  const bool last = next_step_ + 1 == control().task(task_).steps;
  if (step_cost.occupancy == 0 && share_.index != 0) {
    ++next_step_;
    if (last) end_task(descriptor, now, 0, 0);
    return now + 1;
  }
  const Cycles blocked =
      ports.wait + ports.longer.ceil_of(step_cost.occupancy) - step_cost.occupancy;
  blocked_until_ = now + blocked;
  const Cycles end = blocked_until_ + preparation + step_cost.occupancy;
  in_flight_.push({end + plan_.drain, now, task_, next_step_, false, share_.index == 0, blocked});
  ++account_.counters.steps;
  account_.counters.macs += step_cost.macs;
  ++next_step_;
  if (last) end_task(descriptor, end, step_cost.shadow, step_cost.spacing);
  return end;
}

void StepEngine::end_task(const isa::TaskDescriptor& task, Cycles end, Cycles shadow,
                          Cycles spacing) {
  active_ = false;
  if (!used_) return;
  shadow_begin_ = end - shadow;
  spaced_at_ = shadow_begin_ + spacing;
  if (in_flight_.empty() || in_flight_.back().task != task_) {  // its parts have drained
    ++account_.counters.tasks;
    drained_at_ = end;
    return;
  }
  in_flight_.back().last = true;
  ++tasks_draining_;
  previous_ = &task;
}

std::string StepEngine::describe() const {
  const std::string name = wiring_.control->layout().name(wiring_.box);
  const std::size_t queued = wiring_.tasks->size() + (has_next_ ? 1 : 0);
  if (!active_) {
    return fmt::format("{}: {} steps in flight, {} tasks queued", name, in_flight_.size(), queued);
  }
  return fmt::format("{}: {} step {} {}, {} tasks queued", name, wiring_.control->name(task_),
                     next_step_ + 1, wiring_.control->describe_wait(wiring_.box), queued);
}

}  // namespace tessera::engines
