// Which memory block holds each tensor of a graph while it runs: blocks are used again as soon as
// the last reader is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace tessera::host {

struct BufferPlan {
  Table<graph::TensorId, std::int32_t> block_of_tensor;  // -1: constant, or never used
  std::vector<std::int64_t> block_bytes;
};

// A Move that leaves every element where it is (a reshape of a tensor that is no constant): its
// output lies in its input's block, and nothing is copied.
bool shares_block(const graph::Graph& graph, const graph::Node& node);

// Inputs and node results get blocks; constants have none. Graph inputs and outputs, and reshapes
// of them, have blocks that no other tensor uses: their bytes may lie in memory of the caller's.
BufferPlan plan_buffers(const graph::Graph& graph);

// For each node how many element-wise nodes from it on can run together, piece by piece: each reads
// what the one before makes, which no other node reads, and no piece of the last output overwrites
// what another piece has still to read. 1 for other nodes.
std::vector<std::size_t> elementwise_chains(const graph::Graph& graph, const BufferPlan& plan);

}  // namespace tessera::host
