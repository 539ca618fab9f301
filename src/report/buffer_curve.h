// How much state buffer a network needs: the occupancy of a plan, the smallest buffer without
// spilling, and what a smaller one costs.
//
//   cycles │*                          A tensor spills where it goes through DRAM with this buffer
//          │ *                         and would not with the largest one. Bits never change.
//          │   * . . . . . . *
//          └─────┼─────────────── bytes per partition
//             smallest without spilling
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/placement_search.h"
#include "graph/graph.h"
#include "package/package.h"

namespace tessera::report {

// Bytes of one partition of the state buffer.
struct BufferUse {
  std::int64_t peak = 0;             // of the program, which spreads what it holds
  compile::TightPlacement tightest;  // how little would do for the same tasks
};
BufferUse buffer_use(const package::Package& package);

struct BufferPoint {
  std::int64_t bytes = 0;    // of a partition
  std::string error;         // why the network does not compile with it; empty if it does
  std::int64_t spilled = 0;  // tensors
  std::int64_t spilled_bytes = 0;
  std::int64_t cycles = 0;
  std::int64_t dram_bytes = 0;  // read and written, weights included
};

struct BufferCurve {
  std::int64_t smallest = 0;        // without spilling, by bisection: 64 bytes less spill
  std::vector<BufferPoint> points;  // descending sizes, the architecture's own first
};

// Compiles for one size of buffer after the other; each point is run for its timing.
Result<BufferCurve> buffer_curve(const std::shared_ptr<const graph::Graph>& graph,
                                 const ChipConfig& chip);

}  // namespace tessera::report
