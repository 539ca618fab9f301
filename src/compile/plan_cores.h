// The plan of each core of a card: its shares of the layers, cut into pieces that fit, and what stays
// in its state buffer (compile/share_residency.h).
#pragma once

#include <vector>

#include "base/result.h"
#include "compile/plan.h"
#include "compile/share_plan.h"
#include "compile/share_residency.h"

namespace tessera::compile {

struct CorePlans {
  std::vector<Plan> plans;  // of each core; no storage has a home of a plan's
  HeldStorages held;
};

// With `hand_over` what can stay in state buffers and fits does, else everything goes through DRAM.
// An error names the layer that does not fit.
Result<CorePlans> plan_cores(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work,
                             bool hand_over);

}  // namespace tessera::compile
