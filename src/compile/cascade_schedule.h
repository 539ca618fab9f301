// Which rows each layer of a cascade computes in each slot, and how many rows its rings hold.
#pragma once

#include "compile/cascade.h"

namespace tessera::compile {

// Sets slots, steps, the rings' rows and their bytes.
void schedule_cascade(const PlanInputs& inputs, std::int64_t slots, Cascade& cascade);

}  // namespace tessera::compile
