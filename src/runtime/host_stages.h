// The stages that run on the host: functions of the application, and the two that turn tensors
// into the device's format and back.
#pragma once

#include <memory>

#include "pipeline/stage.h"
#include "runtime/network_packet.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// Application code. What it throws ends the task, not the process.
std::shared_ptr<pipeline::StageFunction> make_host_stage(HostFunction function);
// Formats and shapes are those of the model afterwards: float32 becomes the model's float format, a
// tensor of another shape or format is an error that names it.
std::shared_ptr<pipeline::StageFunction> make_pre_stage(const Network& network);
// Narrow floats become float32 where the application gave float32 for narrow inputs.
std::shared_ptr<pipeline::StageFunction> make_post_stage();

}  // namespace tessera::runtime
