// Makes the plan: what stays in the state buffer, how layers are cut, where everything lies.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"

namespace tessera::compile {

// `cascade_ends` has for each layer the last one that a cascade which begins with it may have.
Result<Plan> make_plan(const PlanInputs& inputs, const Table<LayerIndex, LayerIndex>& cascade_ends);

}  // namespace tessera::compile
