// A unary function right after a product, an element-wise operation or a reduction becomes its
// activation.
//
//   Conv, MatMul (float), Elementwise, Reduce ─► unary ─► t     becomes   one node
//
// The intermediate is used once and has the format of the result. Both roundings stay, so values do
// not change.
// Before and after: any draft or final graph.
#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Where a node keeps its activation; null if it cannot take one.
Activation* activation_of(Node& node) {
  switch (node.kind()) {
    case NodeKind::kConv: {
      auto& conv = node.as<ConvAttributes>();
      return conv.matrix.kind == MatrixKind::kInteger ? nullptr : &conv.post.activation;
    }
    case NodeKind::kMatMul: {
      auto& matmul = node.as<MatMulAttributes>();
      return matmul.matrix.kind == MatrixKind::kInteger ? nullptr : &matmul.post.activation;
    }
    case NodeKind::kElementwise: {
      auto& elementwise = node.as<ElementwiseAttributes>();
      // A conversion does not round before its activation, so it is left alone.
      const bool rounds = elementwise.binary && !elementwise.output.enabled;
      return rounds ? &elementwise.activation : nullptr;
    }
    case NodeKind::kReduce: {
      auto& reduce = node.as<ReduceAttributes>();
      return reduce.output.enabled ? nullptr : &reduce.activation;
    }
    default:
      return nullptr;
  }
}

}  // namespace

void fuse_activations(Graph& graph) {
  LiveLinks links(graph);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (!is_plain_unary(node)) continue;
    const TensorId x = node.inputs[0];
    if (links.producer(x) < 0 || !links.has_single_use(x)) continue;
    const NodeIndex from = links.producer(x);
    Node& producer = graph.nodes[from];
    Activation* activation = activation_of(producer);
    const bool same_format = graph.tensor(x).format == graph.tensor(node.outputs[0]).format;
    if (activation == nullptr || *activation != Activation{} || !same_format) continue;
    *activation = node.as<ElementwiseAttributes>().activation;
    producer.outputs = node.outputs;
    add_origins(producer.origins, node.origins);
    node.inputs.clear();
    node.outputs.clear();
    node.attributes = ElementwiseAttributes{};
    links.update(graph, static_cast<NodeIndex>(i));
    links.update(graph, from);
  }
  tidy(graph);
}

}  // namespace tessera::graph
