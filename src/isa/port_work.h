// What a step wants of the state buffer's ports (arch/port_schedule.h), in cycles of one port.
//
// A port moves `port_bytes` a cycle. A row of a surface whose columns lie next to each other moves
// in whole words of a port; where they do not, each element takes a cycle of its own. All
// partitions work side by side, so a step wants what one partition has of it. What lies across
// banks wants of each bank what lies there.
//
//   product      the moving operand, once for each pass of the array: while the array streams, an
//                element a cycle; with several taps a cycle as many as the shifter takes in,
//                at most `port_elements`. Of a stationary operand in the buffer each row once.
//   planar       each source and result once; accumulators 32 bytes an element, each way
//   load, store  each element once
//
// Kernel memory and DRAM have ports of their own. Engines that share a product's columns
// (broadcast) take them in one read.
#pragma once

#include <vector>

#include "arch/chip_config.h"
#include "arch/port_schedule.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Appends what step `step` (0-based) of `task` wants; nothing where the chip's banks are 0.
// `occupancy`: the cycles that the step takes alone. `readers`: engines that read parts of the
// moving operand of their own (unicast), or 1.
void port_work(const TaskDescriptor& task, const ChipConfig& chip, std::int64_t step,
               Cycles occupancy, std::int64_t readers, std::vector<PortDemand>& demands);

}  // namespace tessera::isa
