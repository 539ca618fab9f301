// A run's result without its outputs as bytes, and back: cycles, engines, layers, timeline. What comes back is
// equal to what was sent, but for what stands beside the bytes. Foreign bytes are checked.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "base/result.h"
#include "tessera/run_result.h"

namespace tessera::cluster {

std::vector<std::byte> encode_details(const RunResult& result);
Result<RunResult> parse_details(std::span<const std::byte> bytes);

// How far results of layers reach, of those layers of which it says something: [[layer, extent, accumulator range], ...]. Beside
// the details, which older peers read to their end.
nlohmann::json layer_values(const RunResult& result);
// Into the layers of a result; what is none of that is left out.
void take_layer_values(const nlohmann::json& values, RunResult& result);

// What bars of the timeline moved and for whom, of those of which it says something: [[bar, bytes, write, core],
// ...], likewise beside the details.
nlohmann::json bar_bytes(const RunResult& result);
void take_bar_bytes(const nlohmann::json& bars, RunResult& result);

// Who waited for what (RunResult::waits): [[kind, who, what, layer, core, other, share, cycles], ...], likewise.
nlohmann::json core_waits(const RunResult& result);
void take_core_waits(const nlohmann::json& waits, RunResult& result);

}  // namespace tessera::cluster
