// What a step wants of the state buffer's ports (arch/port_schedule.h), in cycles of one port.
//
// A port moves a word of `port_bytes` a cycle, whose bytes are written or left one by one. A row of a
// surface whose columns lie next to each other moves in whole words of a port, and so do rows without
// a gap between them; where columns lie apart, those in one word move together: p / pitch of them, at
// least one. What is one for all columns is read once a row. All
// partitions work side by side, so a step wants what one partition has of it. What lies across
// banks wants of each bank what lies there.
//
//   product      the moving operand for each pass of the array: what the pass takes through the port
//                (arch/cost.h, ArrayStep). Of a stationary operand in the buffer each row once.
//   planar       each source and result once; accumulators 32 bytes an element, each way
//   load, store  each element once
//
// Kernel memory and DRAM have ports of their own. Engines that share a product's columns
// (broadcast) take them in one read.
#pragma once

#include <span>
#include <vector>

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "arch/port_schedule.h"
#include "isa/accesses.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Not for several threads at once.
class PortWork {
 public:
  explicit PortWork(const ChipConfig& chip);

  // What step `step` (0-based) of `task` wants; nothing where the chip's banks are 0. Of a product on
  // the array `alone` says what the step takes of it while nobody is in its way. `readers`: engines that
  // read parts of the moving operand of their own (unicast), or 1. Valid until the next call.
  std::span<const PortDemand> of(const TaskDescriptor& task, std::int64_t step,
                                 const ArrayStep& alone = {}, std::int64_t readers = 1);

 private:
  class Step;

  const ChipConfig chip_;
  const std::int64_t bank_bytes_;
  std::vector<PortDemand> demands_;
  std::vector<Access> accesses_;       // scratch
  std::vector<std::int64_t> in_bank_;  // scratch: bytes
};

}  // namespace tessera::isa
