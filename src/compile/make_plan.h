// Makes the plan: what stays in the state buffer, how layers are cut, where everything lies.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"

namespace tessera::compile {

// What a layer makes, for the next one alone, of an input that comes in pieces: resident where it has
// room, or passed on as the input comes.
enum class Passing : std::uint8_t { kResident, kAsItComes };

// `cascade_ends` has for each layer the last one that a cascade which begins with it may have.
Result<Plan> make_plan(const PlanInputs& inputs, const Table<LayerIndex, LayerIndex>& cascade_ends,
                       Passing passing);

}  // namespace tessera::compile
