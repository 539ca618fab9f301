// Which rows each layer of a cascade computes in each slot, and how many rows its rings hold.
#pragma once

#include <cstdint>
#include <vector>

#include "compile/cascade.h"
#include "compile/plan.h"

namespace tessera::compile {

// Sets slots, steps, the rings' rows and their bytes.
void schedule_cascade(const PlanInputs& inputs, std::int64_t slots, Cascade& cascade);

// Rows of a step that lie in one piece in each ring where the operation cannot follow a wrap.
std::vector<RowRange> unwrapped_rows(const Cascade& cascade, const PlanInputs& inputs,
                                     const CascadeStep& step);

}  // namespace tessera::compile
