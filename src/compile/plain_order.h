// More order between tasks than they need, as plainer cards have it (arch/card_config.h): for
// comparison.
#pragma once

#include <vector>

#include "isa/remote_dependencies.h"

namespace tessera::compile {

// The cores meet at the end of each layer (card_features.instruction_sync = 0): what a core loads for a
// layer, other than weights, waits until all cores have stored what they make of the layers before.
void meet_after_layers(std::vector<isa::CoreTasks>& cores);

// Loads come before arithmetic (card_features.loads_beside_arithmetic = 0): a load waits for all
// arithmetic before it in its core, and arithmetic for all loads before it. Stores go on beside both.
void load_before_arithmetic(std::vector<isa::CoreTasks>& cores);

}  // namespace tessera::compile
