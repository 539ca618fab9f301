// Which axis of each tensor lies on partitions, and which dynamic products swap their operands: the
// choice with the least cycles for the work itself and for turning what does not fit together.
//
//   product ─► x [rows, channels] ─► mean over channels    channels on partitions, then rows
//          └─────────────────────► x - mean ─► ...          either; the edges decide
//
// Convolutions, pools and products with constant weights have fixed views. Element-wise nodes and
// reductions may have any kept axis on partitions. A product of two tensors may give its transpose:
// (a x b)^T = b^T x a^T. Starting from the views of graph::node_views(), whole chains are tried on
// each axis, then single nodes, until nothing gets cheaper.
#pragma once

#include "arch/chip_config.h"
#include "base/result.h"
#include "base/watch.h"
#include "compile/storage.h"
#include "graph/graph.h"

namespace tessera::compile {

// `storages` is planned without choices; its places hold for any choice. No bit depends on this.
// `watch`: of long work, may be null; its deadline is the only error.
Result<ViewChoices> choose_views(const graph::Graph& graph, const ChipConfig& chip,
                                 const StoragePlan& storages, Watch* watch = nullptr);

}  // namespace tessera::compile
