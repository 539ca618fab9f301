// Puts transpositions between layers where a reader wants on partitions what its tensor has along
// them, and says what became of every transposition.
//
//   layer ─► s ─► reader        layer ─► s ─► [ turn ] ─► s' ─► reader
//
// Before: layers as the graph has them. A reader that can take s as it lies is left alone; one that
// cannot would load it from DRAM in its own layout. After: such a reader has a turned copy s' where
// the array or the planar engine makes it in fewer cycles than the way through DRAM, and where both
// fit the state buffer.
#pragma once

#include <vector>

#include "arch/chip_config.h"
#include "compile/compile_options.h"
#include "compile/layer.h"
#include "compile/storage.h"
#include "graph/graph.h"
#include "package/package.h"

namespace tessera::compile {

// Adds layers and storages. One entry per transposition; `layer` is the index of its layer, or of
// the reader where it has none.
std::vector<package::TranspositionHint> add_transpositions(const graph::Graph& graph,
                                                           const ChipConfig& chip,
                                                           const CompileOptions& options,
                                                           StoragePlan& storages, Layers& layers);

}  // namespace tessera::compile
