// Host steps: the ONNX node evaluated by its definition, the same on every device.
#pragma once

#include <span>
#include <vector>

#include "arith/tensor.h"
#include "base/result.h"
#include "graph/graph.h"

namespace tessera::host {

// `inputs` are the node's present operands in order; absent optional ones are put back here. The
// result has the node's outputs that are used, in order.
Result<std::vector<Tensor>> run_host_step(const graph::Node& node,
                                          std::span<const Tensor* const> inputs);

}  // namespace tessera::host
