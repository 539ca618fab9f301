// Homes in DRAM: which storages need one, and where they lie in the workspace.
#pragma once

#include <optional>

#include "compile/misfit.h"
#include "compile/plan.h"

namespace tessera::compile {

// Marks the outputs of pieces that are stored: those that are read from DRAM.
void mark_stores(const PlanInputs& inputs, Plan& plan);

// Gives each storage that is touched in DRAM a place in the workspace.
std::optional<Misfit> place_homes(const PlanInputs& inputs, Plan& plan);

}  // namespace tessera::compile
