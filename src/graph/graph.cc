#include "graph/graph.h"

namespace tessera::graph {

const char* node_kind_name(NodeKind kind) {
  switch (kind) {
    case NodeKind::kConv:
      return "conv";
    case NodeKind::kMatMul:
      return "matmul";
    case NodeKind::kPool:
      return "pool";
    case NodeKind::kElementwise:
      return "elementwise";
    case NodeKind::kReduce:
      return "reduce";
    case NodeKind::kMove:
      return "move";
    case NodeKind::kHostStep:
      return "host_step";
  }
  return "?";
}

std::int64_t node_macs(const Graph& graph, const Node& node) {
  if (node.kind() == NodeKind::kConv) {
    const Shape& weights = graph.tensor(node.inputs[1]).dims;
    return element_count(graph.tensor(node.outputs[0]).dims) * weights[1] * weights[2] * weights[3];
  }
  if (node.kind() == NodeKind::kMatMul) {
    const Shape& a = graph.tensor(node.inputs[0]).dims;
    return element_count(graph.tensor(node.outputs[0]).dims) * a.back();
  }
  return 0;
}

bool is_vector_float(Format format) {
  return format == Format::kF32 || format == Format::kF16 || format == Format::kBf16;
}

}  // namespace tessera::graph
