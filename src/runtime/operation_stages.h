// The stages of single layers and operations on device memory (operation_packet.h).
#pragma once

#include <memory>

#include "pipeline/stage.h"

namespace tessera::runtime {

std::shared_ptr<pipeline::StageFunction> make_operation_pre_stage();
std::shared_ptr<pipeline::StageFunction> make_operation_stage();
std::shared_ptr<pipeline::StageFunction> make_operation_post_stage();

}  // namespace tessera::runtime
