// Which engines take a task, and how they share it, on processors with several neural or planar
// engines.
//
//   products              all neural engines, broadcast or unicast: what takes fewer cycles
//   work of the planar    all planar engines, likewise; two tasks in a row that have nothing to do
//   engines               with each other take half of the engines each where that is faster
//
// On a processor with one engine of each kind nothing is chosen.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "isa/descriptor.h"

namespace tessera::compile {

// Sets the engines and the sharing of all tasks, before their dependencies are derived. `segments`
// is that of each task.
void choose_engines(const ChipConfig& chip, const std::vector<std::uint32_t>& segments,
                    std::vector<isa::TaskDescriptor>& tasks);

}  // namespace tessera::compile
