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

}  // namespace tessera::graph
