// What an application gives for a network's inputs.
#pragma once

#include <vector>

#include "network/network.h"

namespace tessera::runtime {

// The error names the first input that is not the network's, what it is and what it should be.
Status check_inputs(const NetworkState& network, const std::vector<Tensor>& inputs);

}  // namespace tessera::runtime
