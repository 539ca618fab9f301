// Makes the plan: what stays in the state buffer, how layers are cut, where everything lies.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "compile/plan.h"

namespace tessera::compile {

// How an input that comes in pieces is passed on as it comes, and what stays in the state buffer.
struct Passing {
  // So many layers behind it pass what they make on to the next one, if that alone reads it; 0: what has room stays
  // in the state buffer.
  std::int32_t layers = 0;
  // Rings of cascades take all the room that there is, not half of it: fewer and longer slots.
  bool wide_rings = false;
  // What takes more than one part in so many of the state buffer does not stay there, but goes by pieces through cascades
  // of more layers, which have that room.
  std::int32_t resident_part = 1;
};

// What else is chosen.
struct PlanChoices {
  Passing passing;
  bool early_outputs = false;  // compile/early_outputs.h
};

// `cascade_ends` has for each layer the last one that a cascade which begins with it may have.
Result<Plan> make_plan(const PlanInputs& inputs, const Table<LayerIndex, LayerIndex>& cascade_ends,
                       const PlanChoices& choices);

}  // namespace tessera::compile
