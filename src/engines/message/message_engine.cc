#include "engines/message/message_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/message_work.h"

namespace tessera::engines {
namespace {

// As many steps as can be behind the port at a time; a step occupies the port for a cycle at least.
std::size_t steps_in_flight(const ChipConfig& chip) {
  constexpr Cycles kMost = 4096;
  const Cycles step = std::max<Cycles>(chip.message.header_cycles, 1);
  return static_cast<std::size_t>(std::min(kMost, ceil_div(message_latency(chip), step) + 2));
}

}  // namespace

MessageEngine::MessageEngine(const ChipConfig& chip, const Wiring& wiring)
    : task_start_(chip.dma.task_start_cycles),
      wiring_(wiring),
      link_(chip, wiring.in ? chip.message.buffer_bytes : 0),
      steps_(steps_in_flight(chip)) {}

void MessageEngine::reset(bool timing_only, bool go_on) {
  timing_only_ = timing_only;
  active_ = refused_ = false;
  next_step_ = 0;
  started_at_ = taken_at_ = 0;
  if (!go_on) link_.reset();
  steps_.clear();
  account_.reset();
}

Cycles MessageEngine::step(Cycles now) {
  finish_steps(now);
  refused_ = false;
  if (!active_ && started_at_ <= now && wiring_.tasks->can_pop(now)) begin_task(now);
  if (active_ && started_at_ <= now && taken_at_ <= now && !steps_.full()) begin_step(now);
  return settle(now);
}

void MessageEngine::move(const ActiveStep& step) {
  DataControl& control = *wiring_.control;
  if (timing_only_ || control.stopped(step.task)) return;
  wiring_.math->run_step(control.network_of(step.task).memory, *control.task(step.task).descriptor,
                         step.step);
}

void MessageEngine::finish_steps(Cycles now) {
  DataControl& control = *wiring_.control;
  while (!steps_.empty() && steps_.front().done <= now) {
    const ActiveStep done = steps_.front();
    steps_.pop();
    if (wiring_.in) move(done);
    (wiring_.in ? account_.counters.bytes_read : account_.counters.bytes_written) += done.bytes;
    if (done.step + 1 == control.task(done.task).steps) ++account_.counters.tasks;
    control.trace_step({.task = done.task,
                        .engine = wiring_.box,
                        .step = done.step,
                        .begin = done.begin,
                        .end = now,
                        .blocked_message = done.done - done.taken});
    control.finish_step(done.task, done.step, now);
  }
}

void MessageEngine::begin_task(Cycles now) {
  task_ = wiring_.tasks->pop(now);
  active_ = true;
  next_step_ = 0;
  started_at_ = now + task_start_;
}

void MessageEngine::begin_step(Cycles now) {
  if (!wiring_.control->grant(task_, next_step_, wiring_.box, now)) {
    refused_ = true;
    return;
  }
  const RunTask& task = wiring_.control->task(task_);
  const isa::MessageStep messages = isa::message_step(*task.descriptor, next_step_);
  const MessageLink::Times times = link_.take(now, messages.messages, messages.bytes);
  taken_at_ = times.taken;
  steps_.push({.task = task_,
               .step = next_step_,
               .begin = now,
               .taken = times.taken,
               .done = times.done,
               .bytes = messages.messages * messages.bytes});
  // What goes out leaves the buffer when its step begins; what comes in lands when it ends.
  if (!wiring_.in) move(steps_.back());
  ++account_.counters.steps;
  if (++next_step_ == task.steps) active_ = false;
}

Cycles MessageEngine::settle(Cycles now) {
  Cycles next = steps_.empty() ? kNever : steps_.front().done;
  const bool configuring = started_at_ > now;
  if (configuring) next = std::min(next, started_at_);
  // The port's own end, also where no step follows: its state changes.
  if (taken_at_ > now) next = std::min(next, taken_at_);
  if (!active_ && !configuring && wiring_.tasks->can_pop(now)) next = std::min(next, now + 1);

  EngineTaskTimes* times = nullptr;
  if (!steps_.empty()) {
    times = &wiring_.control->times(steps_.front().task);
  } else if (active_) {
    times = &wiring_.control->times(task_);
  }
  Doing activity = Activity::kIdle;
  if (taken_at_ > now || (active_ && configuring)) {
    activity = Activity::kBusy;
  } else if (!steps_.empty()) {
    activity = Activity::kBlockedMessage;  // the port is done, the last bytes are on their way
  } else if (active_) {
    activity = refused_ ? wiring_.control->blocked_by(wiring_.box, now) : Doing(Activity::kBusy);
  }
  account_.enter(now, activity, times);
  return next;
}

std::string MessageEngine::describe() const {
  std::string text = fmt::format("{}: {} steps in flight",
                                 wiring_.control->layout().name(wiring_.box), steps_.size());
  if (active_) {
    text += fmt::format(", {} step {} {}", wiring_.control->name(task_), next_step_ + 1,
                        wiring_.control->describe_wait(wiring_.box));
  }
  return text + fmt::format(", {} tasks queued", wiring_.tasks->size());
}

}  // namespace tessera::engines
