// Model -> first graph: every reachable node becomes processor nodes or a host step, folded where
// its value is known. Constants of float nodes still have their ONNX format.
#pragma once

#include "base/result.h"
#include "graph/build_options.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "model/model.h"

namespace tessera::graph {

Result<Graph> lower(const model::Model& model, const model::InferredModel& inferred,
                    const BuildOptions& options);

}  // namespace tessera::graph
