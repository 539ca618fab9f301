// The stages that run on the host: functions of the application, and the two that turn tensors
// into the device's format and back.
#pragma once

#include <memory>

#include "pipeline/stage.h"
#include "runtime/network_packet.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// Application code. What it throws ends the task, not the process.
std::shared_ptr<pipeline::StageFunction> make_host_stage(HostFunction function);
// The application's tensors become those of the devices, and blocks stay where they are if they are
// what the devices take: float32 becomes the model's float format,
// then what the model in device form leaves to the host is converted. A tensor of another shape or
// format is an error that names it.
std::shared_ptr<pipeline::StageFunction> make_pre_stage(std::shared_ptr<ModelState> model);
// The reverse; narrow floats become float32 where the application gave float32 for narrow inputs.
// `next`: the model whose stage pre comes right behind, null for none. Where its inputs are these
// outputs as the device gives them, it gets them so: nothing is widened to be narrowed again.
std::shared_ptr<pipeline::StageFunction> make_post_stage(std::shared_ptr<ModelState> model,
                                                         const ModelState* next);

}  // namespace tessera::runtime
