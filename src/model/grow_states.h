// States of a model that grow by a row a run, with room for more rows than they have.
//
//   past [.., n, ..] ─┐                         past [rows, ..] ─► Transpose ─► [.., rows, ..] ─┐
//                     ├─► Concat ─► present  =>                    is_new [rows] ─► Reshape ────┼─► Where ─► as present
//   new  [.., 1, ..] ─┘                         new ────────────────────────────────────────────┘
//                                               new ─► Transpose ─► present [1, ..]
//
// A GroupQueryAttention with lengths of its sequences is no such Concat, but does the same where these say that the new row
// is behind those that the state has.
//
// The rows come first in both, so that a row's elements lie side by side. What read `present` reads the place's new row
// where `is_new` says so and the past elsewhere.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/model.h"

namespace tessera::model {

// An input and the output that it becomes.
struct StateNames {
  std::string input, output;
};

// Name of the input that says where the new row is: boolean, [rows].
inline constexpr const char* kNewRowInput = "tessera.new_row";

// The model with `rows` rows of each state. The error names the state and what is wrong with it.
Result<Model> grow_states(Model model, const std::vector<StateNames>& states, std::int64_t rows);

}  // namespace tessera::model
