// What a message processor moves in a step, and how long a task takes it.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "base/quantity.h"
#include "isa/descriptor.h"

namespace tessera::isa {

// Messages of a step, all of as many bytes.
struct MessageStep {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;  // of each, without its header
};
// Step `step` (0-based) of a task that holds a MessageTask.
MessageStep message_step(const TaskDescriptor& task, std::int64_t step);

// Cycles of such a task alone, from its configuration on to the last byte's place: nothing has come
// in before, and every step is granted at once.
Cycles message_task_cycles(const TaskDescriptor& task, const ChipConfig& chip);

}  // namespace tessera::isa
