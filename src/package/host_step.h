// The body of a host step: a graph of one node, so that a linked program needs no other file.
//
//   graph.inputs  = the step's operands that are computed, in their order
//   constants     = its other operands
//   graph.outputs = its results, in their order
//
//   close_host_step() ─► body: the graph's text; constants: those of its tensors ─►
//   open_host_step()
#pragma once

#include <memory>

#include "base/result.h"
#include "graph/graph.h"
#include "isa/program.h"

namespace tessera::package {

// Puts the host step `node` of `graph` into `step`, whose tensors in DRAM stay as they are.
void close_host_step(const graph::Graph& graph, const graph::Node& node, isa::HostStep& step);
// The graph of one host step, with the operands and results of `step`. The error names what is
// wrong with an untrusted body.
Result<std::shared_ptr<const graph::Graph>> open_host_step(const isa::HostStep& step);
// Opens an untrusted step and closes it again: what follows from the same body is the same bytes,
// however it was laid out.
Status settle_host_step(isa::HostStep& step);

}  // namespace tessera::package
