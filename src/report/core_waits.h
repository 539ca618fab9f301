// Who waited for which core, share or link in a run on several cores, as data.
#pragma once

#include <nlohmann/json.hpp>

#include "tessera/run_result.h"

namespace tessera::report {

// Of RunResult::waits: [{"kind", "who", "what", "cycles", "core", "other", "layer", "share"}, ...]; layer and share of a
// share alone, and `core` and `other` where there is one.
nlohmann::json waits_json(const RunResult& run);

}  // namespace tessera::report
