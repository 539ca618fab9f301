// Emulation by rounding in PyTorch (emulation.py) on the products of a network.
#pragma once

#include "base/result.h"
#include "tessera/session.h"

namespace tessera::bench {

// Milliseconds for all products of the network, channel-wise ones left out. The error says what is
// missing: /usr/bin/python3 or its module torch.
Result<double> emulation_ms(const Network& network, int threads);

}  // namespace tessera::bench
