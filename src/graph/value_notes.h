// From how far the results of a graph's nodes reach in a run, which of them say something: a node whose
// results are at the end of their format, or beyond it, or nothing any more, though its operands are not.
#pragma once

#include <atomic>
#include <cstdint>
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

// How far the graph's input `input` reaches.
using InputExtent = std::function<ValueExtent(std::size_t input)>;

// What notes need to know of a graph's nodes, side by side: a run of thousands of small nodes goes through this, and
// not through the graph. Any number of threads may ask; the graph outlives the table.
class NoteTable {
 public:
  explicit NoteTable(const Graph& graph);
  // `values` by node, in the graph's order; `input` is asked where a note hangs on it.
  std::vector<ValueNote> notes(std::span<const NodeValues> values, const InputExtent& input) const;

 private:
  class Notes;
  struct Row {
    bool looked_at = false;
    bool loses_to_tiny = false, loses_to_zero = false;  // results that say bits were lost
    std::uint32_t first = 0, operands = 0, made = 0;    // in tensors_: operands, then results
  };
  // In place of an extent: of no constant, and of one that nobody has looked at.
  static constexpr std::uint8_t kNoConstant = 0xFF, kNotYet = 0xFE;
  ValueExtent constant_extent(TensorId id) const;

  const Graph& graph_;
  std::vector<Row> rows_;  // by node
  std::vector<TensorId> tensors_;
  mutable Table<TensorId, std::atomic<std::uint8_t>> constants_;
  Table<TensorId, std::int32_t> input_of_;  // -1: none of the graph's inputs
};

// The notes of one run of a graph that has no table.
std::vector<ValueNote> value_notes(const Graph& graph, std::span<const NodeValues> values,
                                   const InputExtent& input);

}  // namespace tessera::graph
