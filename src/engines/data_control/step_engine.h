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
// With task_manager.configuration_sets = 2 the task behind is configured while this one runs, and
// what its first step needs inside the engine (`first`: the array's first weights) is prepared in
// the shadow of this one's last step, as soon as what it is prepared from is there.
//
// A step occupies the engine for its occupancy; its results are there a drain later, while the next
// step already runs. At most `in_flight_max` steps drain at a time, and of two tasks at most. A
// task that reads what the task before it writes waits for the drain. A step that reads what an
// earlier step of its own task writes waits because the task depends on itself (data_control.h).
#pragma once

#include <cstdint>
#include <string>

#include "engines/data_control/data_control.h"
#include "engines/fifo.h"
#include "engines/time_account.h"

namespace tessera::engines {

class StepEngine {
 public:
  struct Wiring {
    isa::EngineKind kind = isa::EngineKind::kNeural;
    Fifo<RunTaskId>* tasks = nullptr;  // filled by the task manager
    DataControl* control = nullptr;
    std::int64_t partitions = 128;  // of the state buffer
    std::size_t in_flight_max = 8;
    Cycles start = 0;               // configuration of a task
    bool second_registers = false;  // a task is configured while the one before it runs
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

 protected:
  struct TaskPlan {
    Cycles first = 0;                // preparation of the first step
    bool first_from_kernels = true;  // by what the kernel DMA brought; false: by any dependency
    Cycles drain = 0;                // from the end of a step's occupancy to its results
  };
  struct StepCost {
    Cycles occupancy = 0;
    // Of a task's last step: its last cycles, in which the next task may prepare, and how long
    // after their begin the next task may begin.
    Cycles shadow = 0, spacing = 0;
    std::int64_t macs = 0;
  };
  virtual TaskPlan plan(const isa::TaskDescriptor& task) = 0;
  virtual StepCost cost(const isa::TaskDescriptor& task, std::int64_t step) = 0;
  // Computes a step's values; called in order, when they are due.
  virtual void execute(RunTaskId id, std::int64_t step) = 0;
  DataControl& control() { return *wiring_.control; }

 private:
  struct InFlight {
    Cycles due = 0, begin = 0;
    RunTaskId task = 0;
    std::int64_t step = 0;
    bool last = false;
  };
  void finish_due(Cycles now);
  void begin_task(Cycles now);
  void configure_next(Cycles now);
  // What is left of the first step's preparation at `now`.
  Cycles preparation_left(Cycles now);
  // Whether the next step's inputs may still be in this engine's own pipeline.
  bool waits_for_drain() const;
  Cycles begin_step(Cycles now);
  void enter(Cycles now, Activity activity);

  const Wiring wiring_;
  bool timing_only_ = false;
  bool active_ = false;  // `task_` holds a task with steps left
  RunTaskId task_ = 0;
  TaskPlan plan_;
  bool has_next_ = false;  // `next_task_` is in the second register set
  RunTaskId next_task_ = 0;
  Cycles next_configured_at_ = 0;
  Cycles configured_at_ = 0;  // of `task_`
  Cycles shadow_begin_ = 0;   // of the task before
  Cycles spaced_at_ = 0;      // from where the task behind it may begin
  Cycles drained_at_ = 0;     // results of the last finished task
  std::int64_t next_step_ = 0;
  Cycles free_at_ = 0;  // end of configuration or occupancy
  Ring<InFlight> in_flight_;
  int tasks_draining_ = 0;       // tasks before `task_` with steps in flight
  bool reads_previous_ = false;  // `task_` reads what the task before it writes
  const isa::TaskDescriptor* previous_ = nullptr;
  TimeAccount account_;
};

}  // namespace tessera::engines
