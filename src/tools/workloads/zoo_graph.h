// The graph of a zoo's network.
#pragma once

#include <memory>
#include <string>

#include "arch/chip_config.h"
#include "base/result.h"
#include "graph/graph.h"
#include "tessera/network.h"
#include "tools/workloads/zoo_file.h"

namespace tessera::tools {

// With weights from seed 0 and data of 16 or 8 bits (zoo_file.h); by way of a temporary file. The error of an unknown
// name says what there is.
Result<std::shared_ptr<const graph::Graph>> zoo_graph(const std::string& name,
                                                      const ChipConfig& chip,
                                                      const LoadOptions& options, int bits = 16);

}  // namespace tessera::tools
