// Two devices compared layer by layer, bit by bit: the first layer and element that differ.
//
// Every node's result is made an output of the graph, so each device shows what it holds there;
// then the graph as it is runs too, and its outputs are the last entries. Nothing but the bytes is
// compared; NaNs with different payloads differ.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "graph/graph.h"
#include "network/network.h"
#include "tessera/session.h"

namespace tessera::runtime {

struct LayerComparison {
  std::string layer;   // node name
  std::string tensor;  // its output
  Format format = Format::kF16;
  Shape dims;
  std::int64_t elements = 0;
  std::int64_t different = 0;
  // The first different element, row-major, and its values on both sides.
  std::int64_t first_index = -1;
  Shape first_position;
  double first_a = 0, first_b = 0;
};

struct Comparison {
  std::vector<LayerComparison> layers;  // in topological order
  std::int64_t values_compared = 0;
  std::int64_t mismatches = 0;
  std::optional<std::size_t> first_layer;  // index into layers
};

struct CompareOptions {
  LoadOptions load;
  SessionOptions a, b;
  // Flips the lowest mantissa bits of this node's first constant on side b, to prove that a
  // difference is found where it arises. Empty: no fault.
  std::string fault_node;
};

Result<Comparison> compare(const std::shared_ptr<const graph::Graph>& graph, const ChipConfig& chip,
                           const std::vector<Tensor>& inputs, const CompareOptions& options);

}  // namespace tessera::runtime
