// Concatenations that have a part from long before: the skip of a U-Net, a feature map that a detector's neck puts beside a
// smaller one, made larger. A part is stored straight into the whole (compile/storage.h), which then lives from the first part
// to the last reader; where the state buffer has no room for that long, all parts go through memory, piece by piece.
//
//   part a ─────────── many layers ───────────► whole ─► reader        whole: in memory, all the way
//   part a ─► memory ─ many layers ─► load ───► whole ─► reader        whole: in the state buffer, for a short while
//
// With a storage of its own the part is loaded into the whole shortly before the others are made (compile/residency.h).
#pragma once

#include <set>

#include "compile/plan.h"

namespace tessera::compile {

using TensorSet = std::set<graph::TensorId>;

// Parts of wholes that are in memory in this plan, and could have a storage of their own.
TensorSet far_parts(const PlanInputs& inputs, const Plan& plan);

}  // namespace tessera::compile
