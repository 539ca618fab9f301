// Which memory block holds each tensor of a graph while it runs: blocks are used again as soon as
// the last reader is done.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tessera::host {

struct BufferPlan {
  std::vector<std::int32_t> block_of_tensor;  // -1: constant, or never used
  std::vector<std::int64_t> block_bytes;
};

// A Move that leaves every element where it is (a reshape of a tensor that is no constant): its
// output lies in its input's block, and nothing is copied.
bool shares_block(const graph::Graph& graph, const graph::Node& node);

// Inputs and node results get blocks; graph outputs keep theirs to the end. Constants have none.
BufferPlan plan_buffers(const graph::Graph& graph);

}  // namespace tessera::host
