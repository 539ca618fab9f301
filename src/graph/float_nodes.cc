#include "graph/float_nodes.h"

namespace tessera::graph {

bool is_float_product(const Node& node) {
  if (node.kind() == NodeKind::kConv) {
    return node.as<ConvAttributes>().matrix.kind != MatrixKind::kInteger;
  }
  return node.kind() == NodeKind::kMatMul &&
         node.as<MatMulAttributes>().matrix.kind != MatrixKind::kInteger;
}

bool is_plain_unary(const Node& node) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.binary && !attributes.gain_bias && !attributes.inputs[0].enabled &&
         !attributes.output.enabled && attributes.activation != Activation{};
}

bool gives_f32(const Node& node) {
  switch (node.kind()) {
    case NodeKind::kConv:
      return !node.as<ConvAttributes>().post.requantise;
    case NodeKind::kMatMul:
      return !node.as<MatMulAttributes>().post.requantise;
    case NodeKind::kElementwise:
      return !node.as<ElementwiseAttributes>().output.enabled;
    case NodeKind::kReduce:
      return !node.as<ReduceAttributes>().output.enabled;
    case NodeKind::kMove:
      return !node.as<MoveAttributes>().has_fill || node.as<MoveAttributes>().fill == 0;
    case NodeKind::kPool:
    case NodeKind::kHostStep:
      break;
  }
  return false;
}

}  // namespace tessera::graph
