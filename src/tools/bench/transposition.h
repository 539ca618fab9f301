// The suite `transposition` of tessera bench.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera::tools {

// Matrices from 7 x 5 to 8192 x 4096 in f16 and i8, each way, on `arch` (empty: pe128x64 and the
// default). Every figure is simulated; matrices that are small enough are checked bit by bit.
Status bench_transposition(const std::string& arch, bool json);

}  // namespace tessera::tools
