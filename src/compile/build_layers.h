// A graph's nodes as layers.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/layer.h"
#include "compile/share_choice.h"
#include "compile/storage.h"
#include "compile/weight_region.h"
#include "graph/graph.h"

namespace tessera::compile {

// One layer a node, in the graph's order. Kernel images go to `weights`, in slices for these shares.
Result<Layers> build_layers(const graph::Graph& graph, const ChipConfig& chip,
                            const StoragePlan& plan, WeightRegion& weights,
                            const ShareChoice& shares = {});

}  // namespace tessera::compile
