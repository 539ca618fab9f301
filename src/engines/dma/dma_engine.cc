#include "engines/dma/dma_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/dram_config.h"
#include "base/ratio.h"

namespace tessera::engines {
namespace {

std::size_t ring_size(const ChipConfig& chip) {
  return static_cast<std::size_t>(chip.dma.outstanding_requests) + 2;
}

}  // namespace

DmaEngine::DmaEngine(const ChipConfig& chip, const Wiring& wiring)
    : chip_(chip),
      port_bytes_(chip.dma.port_bytes),
      wiring_(wiring),
      steps_(ring_size(chip)),
      in_flight_(ring_size(chip)),
      writes_(ring_size(chip)),
      finish_at_(ring_size(chip)) {}

void DmaEngine::reset(bool timing_only) {
  timing_only_ = timing_only;
  active_ = issuing_ = drain_first_ = copying_ = refused_ = out_of_buffer_ = false;
  next_step_ = next_piece_ = outstanding_ = 0;
  started_at_ = port_free_ = issue_from_ = store_port_free_ = blocked_until_ = 0;
  steps_.clear();
  in_flight_.clear();
  writes_.clear();
  finish_at_.clear();
  account_.reset();
}

Cycles DmaEngine::step(Cycles now) {
  complete_requests(now);
  finish_steps(now);
  refused_ = false;
  if (!active_ && started_at_ <= now && wiring_.tasks->can_pop(now)) begin_task(now);
  issue(now);
  return settle(now);
}

void DmaEngine::complete_requests(Cycles now) {
  Ring<Cycles>& completions = wiring_.port->completions;
  while (!completions.empty() && completions.front() <= now) {
    completions.pop();
    const InFlight done = in_flight_.front();
    in_flight_.pop();
    if (done.read_of_copy) {
      writes_.push({done.step, done.piece});
      continue;
    }
    --outstanding_;
    const isa::DmaStep& plan = done.step->plan;
    if (!(plan.reads && plan.writes)) {
      port_free_ = isa::dma_port_free(plan, done.bytes, port_bytes_, now, port_free_);
      if (plan.reads && wiring_.ports != nullptr) ask_for_load(now, *done.step, done.bytes);
    }
    if (done.piece + 1 == plan.pieces) finish_at_.push(std::max(now, port_free_));
  }
}

void DmaEngine::finish_steps(Cycles now) {
  while (!finish_at_.empty() && finish_at_.front() <= now) {
    finish_at_.pop();
    const ActiveStep& done = steps_.front();
    DataControl& control = *wiring_.control;
    const RunTask& task = control.task(done.task);
    if (!timing_only_ && !done.moved && !control.stopped(done.task)) {
      wiring_.math->run_step(control.network_of(done.task).memory, *task.descriptor, done.step);
    }
    if (done.step + 1 == task.steps) ++account_.counters.tasks;
    control.trace_step({done.task, wiring_.box, done.step, done.begin, now, done.blocked_ports});
    control.finish_step(done.task, done.step, now);
    steps_.pop();
  }
}

void DmaEngine::begin_task(Cycles now) {
  task_ = wiring_.tasks->pop(now);
  active_ = true;
  next_step_ = 0;
  started_at_ = now + chip_.dma.task_start_cycles;
  const isa::TaskDescriptor& task = *wiring_.control->task(task_).descriptor;
  const auto* copy = std::get_if<isa::CopyTask>(&task.config);
  // A copy may read what came before it, and its writes trail its reads: others keep off.
  const bool copying = copy != nullptr && !copy->fill;
  drain_first_ = copying || copying_;
  copying_ = copying;
}

bool DmaEngine::begin_step(Cycles now) {
  if (!active_ || started_at_ > now || steps_.full()) return false;
  if (drain_first_ && !steps_.empty()) return false;
  if (!wiring_.control->grant(task_, next_step_, wiring_.box, now)) {
    refused_ = true;
    return false;
  }
  drain_first_ = false;
  const RunTask& task = wiring_.control->task(task_);
  ActiveStep& step = steps_.push();
  step.task = task_;
  step.step = next_step_;
  step.begin = now;
  const std::uint32_t network = wiring_.control->network_of(task_).memory;
  isa::plan_dma_step(*task.descriptor, next_step_, wiring_.memory->places(network), chip_,
                     step.plan);
  // A store takes its bytes out of the buffer when it begins; all else lands when it ends.
  step.moved = !step.plan.reads;
  if (step.moved && !timing_only_ && !wiring_.control->stopped(task_)) {
    wiring_.math->run_step(network, *task.descriptor, next_step_);
  }
  if (wiring_.ports != nullptr) begin_on_ports(step);
  issuing_ = true;
  next_piece_ = 0;
  ++account_.counters.steps;
  if (++next_step_ == task.steps) active_ = false;
  return true;
}

void DmaEngine::begin_on_ports(ActiveStep& step) {
  step.demands.clear();
  step.bytes_asked = step.blocked_ports = 0;
  if (step.plan.reads == step.plan.writes) return;  // a copy
  const isa::TaskDescriptor& task = *wiring_.control->task(step.task).descriptor;
  const std::span<const PortDemand> demands = wiring_.port_work->of(task, step.step);
  step.demands.assign(demands.begin(), demands.end());
}

void DmaEngine::ask_for_store(Cycles now, ActiveStep& step, std::int64_t bytes) {
  const Cycles passage = ceil_div(bytes, port_bytes_);
  const Cycles from = std::max(now, store_port_free_);
  const Cycles blocked = held_up(now, from, bytes, passage, step);
  store_port_free_ = from + passage + blocked;
  if (blocked > 0) issue_from_ = from + blocked;
}

void DmaEngine::ask_for_load(Cycles now, ActiveStep& step, std::int64_t bytes) {
  const Cycles passage = ceil_div(bytes * step.plan.expansion, port_bytes_);
  const Cycles from = std::max(now, port_free_ - passage);
  port_free_ += held_up(now, from, bytes, passage, step);
}

// Each piece wants its part by bytes, so that those of all pieces are the step's.
Cycles DmaEngine::held_up(Cycles now, Cycles from, std::int64_t bytes, Cycles passage,
                          ActiveStep& step) {
  const auto part = [&step](Cycles cycles, std::int64_t until) {
    return until == 0 ? 0 : Ratio(until, step.plan.runs * step.plan.run_bytes).ceil_of(cycles);
  };
  const std::int64_t until = step.bytes_asked + bytes;
  piece_demands_.clear();
  for (const PortDemand& all : step.demands) {
    piece_demands_.push_back(
        {.bank = all.bank,
         .reads = part(all.reads, until) - part(all.reads, step.bytes_asked),
         .writes = part(all.writes, until) - part(all.writes, step.bytes_asked)});
  }
  step.bytes_asked = until;
  const PortSlot slot = wiring_.ports->reserve(now, passage, piece_demands_, from - now);
  const Cycles blocked = slot.end - (from + passage);
  step.blocked_ports += blocked;
  blocked_until_ = std::max(blocked_until_, now) + blocked;
  return blocked;
}

void DmaEngine::push(Cycles now, ActiveStep& step, std::int64_t piece, bool write) {
  DramRequest request = isa::dma_request(step.plan, piece, write);
  request.task = step.task;
  wiring_.port->requests.push(now, request);
  const bool copy = step.plan.reads && step.plan.writes;
  const bool elsewhere = step.plan.memories.destination != isa::TaskMemories::kOwn;
  if (copy && write && elsewhere && copies_ahead_ && !timing_only_ &&
      !wiring_.control->stopped(step.task)) {
    // All that was read so far; the rest comes again with its own piece.
    wiring_.math->run_step(wiring_.control->network_of(step.task).memory,
                           *wiring_.control->task(step.task).descriptor, step.step);
  }
  in_flight_.push({&step, piece, request.runs * request.bytes, copy && !write});
  if (!*wiring_.port->channel_full) {
    wiring_.wakes->wake(Box::kDram, now + 1 + wiring_.port->wake_cycles);
  }
}

void DmaEngine::issue(Cycles now) {
  DramPort& port = *wiring_.port;
  port.wants_accept = false;
  while (true) {
    const bool room = port.requests.can_push(now);
    if (!writes_.empty()) {
      if (!room) break;
      const PendingWrite write = writes_.front();
      writes_.pop();
      push(now, *write.step, write.piece, true);
      continue;
    }
    if (outstanding_ == chip_.dma.outstanding_requests) return;
    if (!issuing_ && !begin_step(now)) return;
    if (issue_from_ > now) return;
    if (!room) break;
    ActiveStep& step = steps_.back();
    if (wiring_.ports != nullptr && !step.plan.reads && !out_of_buffer_) {
      const DramRequest request = isa::dma_request(step.plan, next_piece_, true);
      ask_for_store(now, step, request.runs * request.bytes);
      out_of_buffer_ = true;
      if (issue_from_ > now) return;
    }
    out_of_buffer_ = false;
    ++outstanding_;
    push(now, step, next_piece_, !step.plan.reads);
    if (++next_piece_ == step.plan.pieces) issuing_ = false;
  }
  port.wants_accept = true;
}

Cycles DmaEngine::settle(Cycles now) {
  Cycles next = kNever;
  DramPort& port = *wiring_.port;
  if (!port.completions.empty()) next = port.completions.front();
  // Room made in this cycle is seen in the next.
  if (port.wants_accept && port.requests.has_room()) next = std::min(next, now + 1);
  if (!finish_at_.empty()) next = std::min(next, finish_at_.front());
  if (issue_from_ > now) next = std::min(next, issue_from_);
  const bool configuring = started_at_ > now;
  if (configuring) next = std::min(next, started_at_);
  if (!active_ && !configuring && wiring_.tasks->can_pop(now)) next = std::min(next, now + 1);

  EngineTaskTimes* times = nullptr;
  if (!steps_.empty()) {
    times = &wiring_.control->times(steps_.front().task);
  } else if (active_) {
    times = &wiring_.control->times(task_);
  }
  Doing activity = Activity::kIdle;
  if (!steps_.empty()) {
    // All its requests wait while the channel serves others?
    const bool starved = !in_flight_.empty() && port.seen(now) == 0 && finish_at_.empty();
    if (starved) {
      port.wants_accept = true;
      if (!port.completions.empty()) next = std::min(next, now + 1);
    }
    activity = starved ? Activity::kBlockedMemory : Activity::kBusy;
  } else if (active_) {
    activity = refused_ ? wiring_.control->blocked_by(wiring_.box, now) : Doing(Activity::kBusy);
  }
  // Not while it has no step in flight: blocked_until_ is not behind the end of the last one.
  if (blocked_until_ > now) {
    activity = Activity::kBlockedPorts;
    next = std::min(next, blocked_until_);
  }
  account_.enter(now, activity, times);
  account_.counters.bytes_read = port.bytes_read;
  account_.counters.bytes_written = port.bytes_written;
  return next;
}

std::string DmaEngine::describe() const {
  const std::string name = box_name(wiring_.box);
  std::string text =
      fmt::format("{}: {} steps and {} requests in flight", name, steps_.size(), in_flight_.size());
  if (active_) {
    text += fmt::format(", {} step {} {}", wiring_.control->name(task_), next_step_ + 1,
                        wiring_.control->describe_wait(wiring_.box));
  }
  return text + fmt::format(", {} tasks queued", wiring_.tasks->size());
}

}  // namespace tessera::engines
