// The static proof for several networks on one core: whatever their priorities and arrivals, none
// changes another's bits, and none can hold another up for ever.
//
//   each alone: verify_program() within its region       regions: apart from each other
//   dependencies: on earlier tasks only                   entries: the guaranteed ones are there
//
// Tasks of a network are dispatched in their order, and every queue of an engine is in the order of
// dispatch. If every dependency is on an earlier task, then of all tasks that were dispatched and
// are not finished the one dispatched first waits for nothing, so the run goes on, however the
// networks were interleaved.
#pragma once

#include <span>

#include "arch/chip_config.h"
#include "base/result.h"
#include "isa/program.h"

namespace tessera::isa {

// One program alone need not have a region, and may depend on later tasks as verify_program()
// allows. The error names the network (by its place in `programs`) and what is wrong.
Status verify_networks(std::span<const Program* const> programs, const ChipConfig& chip);

// What must hold of each of several by itself: verify_program(), and that it depends on earlier tasks
// only.
Status verify_one_of_several(const Program& program, const ChipConfig& chip);

// How many networks a core takes: not more than it has queues, nor guaranteed entries than entries.
Status check_network_count(std::size_t networks, const ChipConfig& chip);

// Only that the regions are there and apart.
Status check_regions_apart(std::span<const Program* const> programs, const ChipConfig& chip);

}  // namespace tessera::isa
