// What float and integer matrix products share: operands of any rank as graph.h's MatMul wants
// them.
#pragma once

#include <string>

#include "graph/lowering.h"

namespace tessera::graph {

struct MatMulOperands {
  TensorId a;         // [B..., M, K]
  TensorId b;         // [B..., K, N] or [K, N]
  Shape output_dims;  // [B..., M, N]
};

// Rank-1 operands get an axis of extent 1, leading axes are expanded where they differ.
MatMulOperands matmul_operands(Op& op, TensorId a, TensorId b);

// The MatMul node that produces ONNX value `output`, followed by a reshape if the ONNX shape
// differs (rank-1 operands). `bias` may be invalid.
void emit_matmul(Op& op, const std::string& output, const MatMulOperands& operands, TensorId bias,
                 const MatMulAttributes& matmul);

// The last two axes exchanged; constants are transposed at compile time.
TensorId transposed_matrix(Op& op, const std::string& suffix, TensorId id);

}  // namespace tessera::graph
