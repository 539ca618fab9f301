// A run's result without its outputs as bytes, and back: cycles, engines, layers, timeline. What comes back is
// equal to what was sent. Foreign bytes are checked.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "tessera/run_result.h"

namespace tessera::cluster {

std::vector<std::byte> encode_details(const RunResult& result);
Result<RunResult> parse_details(std::span<const std::byte> bytes);

}  // namespace tessera::cluster
