// Performance models (isa/performance_model.h) as tables of a container.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "container_generated.h"
#include "isa/performance_model.h"

namespace tessera::package {

std::unique_ptr<fb::PerformanceModelT> to_fb(const isa::ModelledCores& model);
// Checked; null where there is none.
Result<std::shared_ptr<const isa::ModelledCores>> model_of(const fb::PerformanceModel* table,
                                                           const std::string& name);

}  // namespace tessera::package
