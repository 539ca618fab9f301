// What float and integer convolutions share.
#pragma once

#include <string>
#include <vector>

#include "graph/lowering.h"
#include "graph/window.h"

namespace tessera::graph {

// Operands of a convolution: x [N, C, H, W] and weights [OC, C/groups, KH, KW].
struct ConvDims {
  const Shape& x;
  const Shape& weights;
};

// Geometry, groups, channel-wise and block cut of a convolution; formats are the caller's. The cut
// is im2col where the sum has fewer blocks of N = `native_dimension` for it, unless neighbouring output
// pixels, of few channels, share so many of the blocks along channels that these are fewer.
ConvAttributes conv_attributes(const Window& window, std::int64_t groups, const ConvDims& dims,
                               std::int64_t native_dimension);

// The Conv node (with reshapes around it if x is [N, C, L]) that produces ONNX value `output`.
// `inputs` are x, weights of rank 4, and the bias if there is one.
void emit_conv(Op& op, const std::string& output, std::vector<TensorId> inputs,
               const ConvAttributes& conv);

}  // namespace tessera::graph
