// Drops the dependencies that follow from others (transitive reduction over progress lines).
//
//   store ──► neural ──► planar        "planar waits for store" says nothing new where every step
//     └────────────────────▲           of planar waits for a step of neural that waited for as much
//
// What is known to be finished when step j of a task begins: all steps before it in its own queue
// and what those knew, and what every step that it waits for knew. A line is redundant if, for
// every j, the steps it asks for are known without it. Dropping it changes no order and no cycle of
// the engines; the descriptors get shorter.
//
// A line on an earlier task of the same engine is redundant too: the queue's order says it. A line on
// the task itself is not, unless another one asks for as much: the queue lets a step begin while the
// ones before it are not finished. Lines on later tasks stay as they are (the verifier judges them).
// A task with more lines and steps than kComparisonsMax allows keeps all its lines.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "isa/program.h"

namespace tessera::link {

// Comparisons of one task: steps * lines * lines. Real tasks need some hundreds.
inline constexpr std::int64_t kComparisonsMax = std::int64_t{1} << 22;

// Returns how many were dropped. `segments` cover `tasks` in order; an error if a task has no or
// too many steps.
Result<std::int64_t> drop_redundant_dependencies(const std::vector<isa::Segment>& segments,
                                                 std::vector<isa::TaskDescriptor>& tasks);

}  // namespace tessera::link
