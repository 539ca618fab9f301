// From how far the results of a graph's nodes reach in a run, which of them say something: a node whose
// results are at the end of their format, or beyond it, or nothing any more, though its operands are not.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "arith/tensor.h"
#include "arith/value_extent.h"
#include "graph/graph.h"
#include "tessera/value_note.h"

namespace tessera::graph {

// What is known of a node's results after a run.
struct NodeValues {
  ValueExtent extent = ValueExtent::kUnknown;
  bool accumulator_range = false;  // a sum of a product was out of range
};

// Ends of the node's format that its activation hides; none of nodes that do not round before it.
arith::HiddenEnds hidden_ends(const Graph& graph, const Node& node);
// Whether a run looks at the node's results: floats that arithmetic made. Moves and host steps have what
// they read.
bool looks_at(const Graph& graph, const Node& node);

// Of results at the end of their format, or beyond.
ValueTrouble trouble_of(ValueExtent extent);

// `values` by node, in the graph's order; `input(i)` is how far the graph's input i reaches, and is asked where a
// note hangs on it.
std::vector<ValueNote> value_notes(const Graph& graph, std::span<const NodeValues> values,
                                   const std::function<ValueExtent(std::size_t input)>& input);

}  // namespace tessera::graph
