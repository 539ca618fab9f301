// What a segment's run on the core adds to a run's result: engines, layers, timeline.
#pragma once

#include "card/card.h"
#include "card/core.h"
#include "tessera/run_result.h"

namespace tessera::device {

// An entry of `result.layers` for each of the program's hints.
void add_hints(const isa::Program& program, RunResult& result);
// Adds the segment's statistics and cycles. `result.layers` has an entry for each hint.
void add_segment(const isa::Program& program, std::size_t segment,
                 const card::RunStatistics& statistics, RunResult& result);
// The same of all cores of a card: rows "core 0 neural", ..., the memory that they share, and who waited for whom.
void add_card_segment(const isa::CardProgram& program, std::size_t segment,
                      const card::CardStatistics& statistics, RunResult& result);
// Engines of a run, added to those that are there by name.
void add_engines(const card::RunStatistics& statistics, std::vector<EngineUse>& engines);
// Adds the layers of a network's tasks, those of all its segments.
void add_tasks(const isa::Program& program, const std::vector<card::TaskTiming>& tasks,
               RunResult& result);
// Adds layers and timeline of one of several networks that shared a core; `place` is its place in
// the run.
void add_network(const isa::Program& program, std::size_t place, const card::NetworksResult& run,
                 RunResult& result);

}  // namespace tessera::device
