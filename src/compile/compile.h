// Graph -> Plan -> Package: tiling, placement, order, dependencies.
//
//   graph node ─► views ─► tasks (load | kernel | neural | planar | store) ─► bands and rings
//        ─► placement in state buffer, kernel memory and DRAM ─► dependencies ─► frames
//
// Nothing here changes bits: any tile budget and any buffer size give the same results.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "arch/chip_config.h"
#include "base/result.h"
#include "graph/graph.h"
#include "package/package.h"

namespace tessera::compile {

// How a tensor is turned to another layout (transposition.h).
enum class TranspositionWay : std::uint8_t { kArray, kPlanar, kDma };

struct CompileOptions {
  // Upper bound on one task's working set in the state buffer, bytes a partition; 0 = the compiler
  // chooses. Smaller budgets mean smaller bands.
  std::int64_t tile_budget_bytes = 0;
  // Keep tensors in the state buffer between layers where they fit (off: everything through DRAM).
  bool resident = true;
  // Choose which axes lie on partitions, and swap operands of dynamic products, by cost.
  bool choose_views = true;
  // The way of transpositions that can go it; none: the cheapest each time.
  std::optional<TranspositionWay> transposition = std::nullopt;
  // Work through layers together, in rings of rows, where that saves DRAM traffic. Needs
  // `resident`.
  bool cascades = true;
  // Store kernels compressed where that saves DRAM bytes (off: as they are).
  bool compress_weights = true;
};

// An error names the layer, what was found, what is allowed and the way out.
Result<package::Package> compile(std::shared_ptr<const graph::Graph> graph, const ChipConfig& chip,
                                 const CompileOptions& options = {});

}  // namespace tessera::compile
