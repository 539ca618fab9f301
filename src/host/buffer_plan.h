// Which memory block holds each tensor of a graph while it runs: blocks are used again as soon as
// the last reader is done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "host/run_order.h"

namespace tessera::host {

struct BufferPlan {
  Table<graph::TensorId, std::int32_t> block_of_tensor;   // -1: constant, or never used
  Table<graph::TensorId, std::int64_t> offset_of_tensor;  // bytes from its block's begin
  std::vector<std::int64_t> block_bytes;
};

// Whether what `box` of a Move copies lies there already: the output is a part of the source, or the
// source was made where the output lies.
bool lies_in_place(const graph::Graph& graph, const BufferPlan& plan, const graph::Node& node,
                   const graph::CopyBox& box);

// Inputs and node results get blocks; constants have none. A part of a tensor whose elements lie one
// behind the other lies in that tensor; tensors that are joined into one are made where it lies. Graph
// inputs and outputs, and reshapes of them, have blocks that no other tensor but parts of them uses:
// their bytes may lie in memory of the caller's. Branches that run at the same time do not write where another one
// of their stretch reads or writes.
BufferPlan plan_buffers(const graph::Graph& graph, const RunOrder& order);

// For each node how many element-wise nodes from it on can run together, piece by piece: each reads
// what the one before makes, which no other node reads, and no piece of the last output overwrites
// what another piece has still to read. 1 for other nodes. They are neighbours in the order, too, and of one branch.
std::vector<std::size_t> elementwise_chains(const graph::Graph& graph, const BufferPlan& plan,
                                            const RunOrder& order);

}  // namespace tessera::host
