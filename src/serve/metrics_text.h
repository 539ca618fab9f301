// The figures of served models as Prometheus text: counters and histograms, which add up over servers.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "serve/access.h"
#include "serve/served_model.h"

namespace tessera::serve {

std::string metrics_text(const std::vector<std::shared_ptr<ServedModel>>& models,
                         const std::map<std::string, TenantStatistics>& tenants);

}  // namespace tessera::serve
