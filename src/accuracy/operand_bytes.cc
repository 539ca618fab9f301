#include "accuracy/operand_bytes.h"

#include <algorithm>
#include <set>

#include "arith/microscaling.h"
#include "base/quantity.h"

namespace tessera::accuracy {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;

// What a run of `length` terms takes, in bits.
std::int64_t run_bits(const MatrixFormat& matrix, Format vector, bool moving, std::int64_t length) {
  switch (matrix.kind) {
    case MatrixKind::kBlockFloat: {
      const int mantissa = moving ? matrix.mantissa_bits_moving : matrix.mantissa_bits_stationary;
      const std::int64_t exponent = vector == Format::kF16 ? 5 : 8;
      return length * (mantissa + 1) + ceil_div(length, matrix.native_dimension) * exponent;
    }
    case MatrixKind::kMicroscaling: {
      const auto shape =
          arith::micro_shape(moving ? matrix.element_moving : matrix.element_stationary);
      return length * shape.bits + ceil_div(length, arith::kMicroBlock) * 8;
    }
    default:  // integers lie in memory as they are
      return length * format_bytes(vector) * 8;
  }
}

class OperandCounter {
 public:
  explicit OperandCounter(const Graph& graph) : graph_(graph) {}

  void add(const Node& node) {
    if (node.kind() == NodeKind::kConv) {
      const auto& conv = node.as<graph::ConvAttributes>();
      MatrixFormat matrix = conv.matrix;
      if (conv.channel_wise) matrix.kind = MatrixKind::kFloat;
      const Shape& w = graph_.tensor(node.inputs[1]).dims;
      const Shape& x = graph_.tensor(node.inputs[0]).dims;
      const bool flat = conv.cut == BlockCut::kIm2col;
      const std::int64_t run = flat ? w[1] * w[2] * w[3] : w[1];
      add_operand(node.inputs[1], matrix, false, run);
      add_operand(node.inputs[0], matrix, true, x[1] / conv.groups);
    } else if (node.kind() == NodeKind::kMatMul) {
      const MatrixFormat& matrix = node.as<graph::MatMulAttributes>().matrix;
      const std::int64_t run = graph_.tensor(node.inputs[0]).dims.back();
      add_operand(node.inputs[0], matrix, true, run);
      add_operand(node.inputs[1], matrix, false, run);
    }
  }
  const OperandBytes& bytes() const { return bytes_; }

 private:
  // Each tensor once, in runs of `run` terms.
  void add_operand(graph::TensorId id, const MatrixFormat& matrix, bool moving, std::int64_t run) {
    if (!seen_.insert(id).second) return;
    const graph::TensorInfo& tensor = graph_.tensor(id);
    const std::int64_t runs = element_count(tensor.dims) / std::max<std::int64_t>(1, run);
    const std::int64_t bytes = ceil_div(runs * run_bits(matrix, tensor.format, moving, run), 8);
    (tensor.constant != nullptr ? bytes_.weights : bytes_.activations) += bytes;
  }

  const Graph& graph_;
  std::set<graph::TensorId> seen_;
  OperandBytes bytes_;
};

}  // namespace

OperandBytes operand_bytes(const Graph& graph) {
  OperandCounter counter(graph);
  for (const Node& node : graph.nodes) counter.add(node);
  return counter.bytes();
}

}  // namespace tessera::accuracy
