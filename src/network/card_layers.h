// What is said of the layers of a network on several cores: how each was cut, what the cores got of the
// results before, and the bytes that moved for it.
//
//   this layer \ the one before | rows, columns             | channels
//   rows, columns               | edges                     | full forward
//   channels                    | full forward, full broadcast (both)
//
// A layer whose results need nothing of their neighbours (element-wise, a pooling by channels) reads its
// own part where the one before is cut the same way. What one core makes the others get from it.
#pragma once

#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "compile/compile_shares.h"
#include "graph/graph.h"
#include "tessera/run_result.h"

namespace tessera::network {

// By layer, as the hints of the first core's program. `shared` is of `graph`, and its cores lie as in
// `placement`.
std::vector<LayerSplit> layer_splits(const graph::Graph& graph, const ChipConfig& chip,
                                     const CardPlacement& placement,
                                     const compile::SharedProgram& shared);

}  // namespace tessera::network
