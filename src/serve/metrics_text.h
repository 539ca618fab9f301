// The figures of served models as Prometheus text: counters and histograms, which add up over servers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/served_model.h"

namespace tessera::serve {

std::string metrics_text(const std::vector<std::shared_ptr<ServedModel>>& models);

}  // namespace tessera::serve
