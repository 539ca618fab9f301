// What became of every transposition of a network: the way chosen, cycles, DRAM bytes, and what the
// next best way would have cost.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "package/package.h"
#include "tessera/session.h"

namespace tessera::tools {

// Ends with a line of sums; empty where there is none.
std::string transposition_text(const package::Package& package, const RunResult& run);
nlohmann::json transposition_json(const package::Package& package, const RunResult& run);

}  // namespace tessera::tools
