// Graph -> Plan -> Package: tiling, placement, order, dependencies.
//
//   graph node ─► views ─► tasks (load | kernel | neural | planar | store) ─► bands and rings
//        ─► placement in state buffer, kernel memory and DRAM ─► dependencies ─► frames
//
// Nothing here changes bits: any tile budget and any buffer size give the same results.
#pragma once

#include <memory>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "graph/graph.h"
#include "package/package.h"

namespace tessera::compile {

// An error names the layer, what was found, what is allowed and the way out.
Result<package::Package> compile(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                                 const CompileOptions& options = {});

}  // namespace tessera::compile
