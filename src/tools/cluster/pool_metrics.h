// A cluster's pool for Prometheus: nodes, cores by card, allocations by tenant.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::tools {

// Of the status as a master says it; `is_answering`: it did just now. What is none of that is left out.
std::string pool_metrics_text(const nlohmann::json& status, bool is_answering);

}  // namespace tessera::tools
