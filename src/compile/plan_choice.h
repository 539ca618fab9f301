// Which layers are worked through together. Cascades save DRAM traffic and cost steps, starts and
// refills of the array; what they come to shows when all tasks are laid out in time:
//
//   plans with cascades of at most 32, 4, 3, 2 layers, and with none ─► tasks ─► timeline of each
//     ─► the best cascades of all of them, range of layers by range ─► one more plan ─► the fastest
//
// Then the order in DRAM and the lengths of the layers' steps that take less time.
//
// Where an input comes in pieces, all of that with what is made of it resident, and passed on as it comes: by the
// first layer, and by as many as take least with the longest cascades.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/emit.h"
#include "compile/make_plan.h"
#include "compile/plan.h"
#include "compile/timeline.h"

namespace tessera::compile {

// A plan and what becomes of it.
struct Draft {
  Plan plan;
  Passing passing;
  DramOrders orders;
  StepPixels steps;
  Addresses addresses;
  EmittedTasks tasks;  // with dependencies
  std::int64_t dependencies_dropped = 0;
  Timeline timeline;  // empty where there was nothing to choose
};

// `addresses` are those of the storages, without workspace offsets.
Result<Draft> choose_plan(const PlanInputs& inputs, const Addresses& addresses);

// Ranges of layers (first <= last) that were timed, some of them as cascades. Those cascades that
// cover [0, layers) together with single layers in the least time; `alone[i]` is layer i's.
struct TimedRange {
  LayerRange layers;
  Cycles cycles = 0;
};
std::vector<LayerRange> fastest_cascades(const std::vector<Cycles>& alone,
                                         const std::vector<TimedRange>& cascades);

}  // namespace tessera::compile
