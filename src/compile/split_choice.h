// Which way each layer is cut: the one whose slowest core, or whose traffic, takes less time by the
// performance model. Each layer is judged by itself; everything goes through DRAM, whichever way its
// neighbours are cut.
#pragma once

#include <memory>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "compile/compile_shares.h"
#include "compile/share_choice.h"
#include "graph/graph.h"

namespace tessera::compile {

// For 2 to kCoresMax cores; errors as of compile_shares().
Result<ShareChoice> choose_splits(const std::shared_ptr<const graph::Graph>& graph,
                                  const ChipConfig& chip, const CompileOptions& options, int cores);

}  // namespace tessera::compile
