// Which steps all that are still to come know to be finished: nothing can race with them any more, and who
// looks for races may forget them.
//
//   queue   what its next step knows at least
//   load    what the last one knew, and what it waits for
//   array   the same ...
//   ─────
//   settled: what all of these know
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "isa/step_clocks.h"

namespace tessera::isa {

// Of a segment's steps, taken in an order that isa/step_order.h allows. Program and clocks outlive it.
class SettledSteps {
 public:
  SettledSteps(const Program& program, const StepClocks& clocks, const Segment& segment);

  // The step has begun, and its clock is kept.
  void take(const StepRef& step);
  // What every step to come knows; everything where none is.
  StepClock known() const;
  // The same of those that touch more than kernel memory and weights. Loads of kernels may wait for nothing but room in
  // the task buffer, and then know nothing.
  StepClock known_beside_kernels() const;

 private:
  struct Queue {
    std::vector<TaskId> tasks;
    std::size_t at = 0;     // the task at hand
    std::int64_t step = 0;  // its next one
    StepRef latest = {};    // none: none has begun
    bool kernels_only = true;
  };
  bool is_taken(const StepRef& step) const;
  StepClock known_to_next(const Queue& queue) const;
  StepClock known(bool beside_kernels) const;

  const Program& program_;
  const StepClocks& clocks_;
  const TaskId first_;
  std::vector<Queue> queues_;        // of each group
  std::vector<std::int64_t> taken_;  // steps of each of the segment's tasks
};

}  // namespace tessera::isa
