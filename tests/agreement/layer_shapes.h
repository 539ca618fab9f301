// The distinct layers of a set of models as lines of text, and one-node graphs made from such
// lines: kind, attributes, then each operand's format, place (input or constant) and dimensions.
// Values are not part of a line.
#pragma once

#include <string>

#include "base/result.h"
#include "graph/graph.h"

namespace tessera {

// Whether a node's layer can be written: a product, pooling, element-wise work or reduction.
bool has_layer_line(const graph::Node& node);
// The layer of a node; equal layers have equal lines.
std::string layer_line(const graph::Graph& graph, const graph::Node& node);

// A graph of one node, with random constants made from `seed`. Where the layer has more than
// `work_max` multiply-accumulates (or elements), it has fewer rows, images or channel-wise
// channels; never fewer terms, taps or output channels of a product.
Result<graph::Graph> layer_graph(const std::string& line, std::int64_t work_max, unsigned seed);

// Numbers of very different sizes for floats, all values for integers.
Tensor random_layer_tensor(Format format, const Shape& dims, unsigned seed);

}  // namespace tessera
