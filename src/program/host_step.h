// A host step by itself: a graph of one node, so that a linked program needs no other file.
//
//   graph.inputs  = the step's operands that are computed, in their order
//   constants     = its other operands
//   graph.outputs = its results, in their order
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/result.h"
#include "program/program.h"

namespace tessera::program {

// The graph of one host step of `graph`.
graph::Graph host_step_graph(const graph::Graph& graph, const graph::Node& node);

// Its text, and back. The constants are those of the text's tensors, by name. What comes back is
// the graph of one host step with the operands and results of `step`.
std::string step_graph_text(const graph::Graph& graph);
using StepConstants = std::map<std::string, std::shared_ptr<const Tensor>>;
Result<std::shared_ptr<const graph::Graph>> parse_step_graph(const std::string& text,
                                                             const StepConstants& constants,
                                                             const HostStepRef& step);

}  // namespace tessera::program
