// What the neural and the planar engine have in common: tasks in order, steps in sequence.
//
//   tasks ─► configure ─► [ step 0 ][ step 1 ] blocked [ step 2 ] ...
//              start          └─ drain ─► results in the buffer, progress + 1
//
//   with a second register set:
//
//   task 0  [ configure ][ step 0 .... ][ step 1 .... ]
//   task 1               [ configure ]     [ prepare ] [ step 0 .... ]
//
// With task_manager.configuration_sets = 2 the task behind is configured while this one runs (its
// last step included, which may be its only one), and
// what its first step needs inside the engine (`first`: the array's first weights) is prepared in
// the shadow of this one's last step, as soon as what it is prepared from is there.
//
// A step occupies the engine for its occupancy; its results are there a drain later, while the next
// step already runs. At most `in_flight_max` steps drain at a time, and of two tasks at most. A
// task that reads what the task before it writes waits for the drain. A step that reads what an
// earlier step of its own task writes waits because the task depends on itself (data_control.h).
//
// Engines that share a task begin each of its steps together. An engine that could begin offers the
// step; the core begins it on all of them in the cycle in which the last one offers, when all boxes
// have been stepped, so the order of stepping stays free. Each engine takes as long as its share. The
// first of them leads: the step is finished, and its values are computed, when the last part is done.
// An engine without a share of the task is not configured: it keeps its place in the order, and idles.
//
// Where the ports of the state buffer's banks are counted (arch/port_schedule.h), a step of one engine
// is offered too, and the core asks for its port time before it begins: the step begins later or
// takes longer by what the ports allow, all shares of it alike. Those cycles come first in the account.
#pragma once

#include <cstdint>
#include <string>

#include "arch/cost.h"
#include "base/ratio.h"
#include "engines/data_control/data_control.h"
#include "engines/data_control/exceptions.h"
#include "engines/fifo.h"
#include "engines/time_account.h"

namespace tessera::engines {

class StepEngine {
 public:
  struct Wiring {
    Box box = Box::kFirstEngine;
    Fifo<RunTaskId>* tasks = nullptr;  // filled by the task manager
    DataControl* control = nullptr;
    std::int64_t partitions = 128;  // of the state buffer
    std::size_t in_flight_max = 8;
    Cycles start = 0;               // configuration of a task
    bool second_registers = false;  // a task is configured while the one before it runs
    bool ports_counted = false;     // every step is offered
  };
  explicit StepEngine(const Wiring& wiring);
  virtual ~StepEngine() = default;
  StepEngine(const StepEngine&) = delete;
  StepEngine& operator=(const StepEngine&) = delete;

  void reset(bool timing_only);
  // Does all that can be done at `now`; returns when it next has something to do by itself.
  Cycles step(Cycles now);
  TimeAccount& account() { return account_; }
  std::string describe() const;

  // ---- steps that several engines share, or that ask for ports ----
  // Whether the engine could begin a step that waits for the others, or for the core.
  bool offers() const { return offered_; }
  RunTaskId offered_task() const { return task_; }
  std::int64_t offered_step() const { return next_step_; }
  // The step still waits for the others: the task behind is configured meanwhile.
  void wait_for_others(Cycles now) {
    if (wiring_.second_registers) configure_next(now);
  }
  // What is left of the step's preparation; of those of all engines, the longest counts.
  Cycles preparation(Cycles now) { return next_step_ == 0 && used_ ? preparation_left(now) : 0; }
  // What its share of the offered step takes while nobody is in its way; no cycles without a share.
  ArrayStep alone();
  // Engines that read parts of the offered step's moving operand of their own, or 1.
  virtual std::int64_t port_readers() const { return 1; }
  // What the ports allow the offered step: when it begins after its preparation, and by how much all
  // its shares take longer.
  struct PortShare {
    Cycles wait = 0;
    Ratio longer{1, 1};
  };
  // Takes its share of the offered step; returns when its results are in memory, at `now` if it has
  // no share.
  Cycles take_share(Cycles now, Cycles preparation, const PortShare& ports);
  // The leader's results of the step begun last count from `due` on.
  void lead_until(Cycles due) { in_flight_.back().due = due; }
  // When it next has something to do by itself.
  Cycles next_event(Cycles now) const;

 protected:
  struct TaskPlan {
    bool used = true;                // the engine has a share of the task's steps
    Cycles first = 0;                // preparation of the first step
    bool first_from_kernels = true;  // by what the kernel DMA brought; false: by any dependency
    Cycles drain = 0;                // from the end of a step's occupancy to its results
  };
  struct StepCost {
    Cycles occupancy = 0;
    std::int64_t moving_elements = 0;  // ArrayStep's
    // Of a task's last step: its last cycles, in which the next task may prepare, and how long
    // after their begin the next task may begin.
    Cycles shadow = 0, spacing = 0;
    std::int64_t macs = 0;
  };
  // `share` of the task is the engine's.
  virtual TaskPlan plan(const isa::TaskDescriptor& task, const EngineShare& share) = 0;
  // An occupancy of 0: the engine has no share of this step.
  virtual StepCost cost(const isa::TaskDescriptor& task, std::int64_t step) = 0;
  // Computes a step's values; called in order, when they are due.
  virtual void execute(RunTaskId id, std::int64_t step) = 0;
  // Which of `traps` (isa::Traps) the step just computed met, whose products reported `flags`, or "".
  virtual std::string exception(RunTaskId id, std::int64_t step, std::uint8_t traps,
                                const arith::StickyFlags& flags) = 0;
  // What the values of the step just computed came to.
  virtual StepValues values(RunTaskId id, std::int64_t step) = 0;
  DataControl& control() { return *wiring_.control; }
  const EngineShare& share() const { return share_; }

 private:
  struct InFlight {
    Cycles due = 0, begin = 0;
    RunTaskId task = 0;
    std::int64_t step = 0;
    bool last = false;
    bool leads = true;
    Cycles blocked_ports = 0;
  };
  void finish_due(Cycles now);
  void compute(RunTaskId id, std::int64_t step);
  void begin_task(Cycles now);
  void configure_next(Cycles now);
  // What is left of the first step's preparation at `now`.
  Cycles preparation_left(Cycles now);
  // Whether the next step's inputs may still be in this engine's own pipeline.
  bool waits_for_drain() const;
  Cycles begin_step(Cycles now);
  const StepCost& cost_of_offer();
  // Occupies the engine from `now` on; returns the end of the occupancy.
  Cycles occupy(Cycles now, Cycles preparation, const StepCost& step_cost, const PortShare& ports);
  // What it does until free_at_, from `now` on.
  Activity working(Cycles now) const {
    return blocked_until_ > now ? Activity::kBlockedPorts : Activity::kBusy;
  }
  void end_task(const isa::TaskDescriptor& task, Cycles now, Cycles shadow, Cycles spacing);
  void enter(Cycles now, Doing doing);

  const Wiring wiring_;
  bool timing_only_ = false;
  bool active_ = false;  // `task_` holds a task with steps left
  RunTaskId task_ = 0;
  EngineShare share_;         // of `task_`
  bool used_ = true;          // it is not empty
  bool offered_ = false;      // the next step waits for the other engines, or for the core
  bool offer_known_ = false;  // `offer_` is that of the next step
  StepCost offer_;
  TaskPlan plan_;
  bool has_next_ = false;  // `next_task_` is in the second register set
  RunTaskId next_task_ = 0;
  Cycles next_configured_at_ = 0;
  Cycles configured_at_ = 0;  // of `task_`
  Cycles shadow_begin_ = 0;   // of the task before
  Cycles spaced_at_ = 0;      // from where the task behind it may begin
  Cycles drained_at_ = 0;     // results of the last finished task
  std::int64_t next_step_ = 0;
  Cycles free_at_ = 0;        // end of configuration or occupancy
  Cycles blocked_until_ = 0;  // by ports; not behind free_at_
  Ring<InFlight> in_flight_;
  int tasks_draining_ = 0;       // tasks before `task_` with steps in flight
  bool reads_previous_ = false;  // `task_` reads what the task before it writes
  const isa::TaskDescriptor* previous_ = nullptr;
  TimeAccount account_;
};

}  // namespace tessera::engines
