// Model -> Graph: the first compiler stage. Each pass is a row of a table and a file of its own;
// the verifier runs after every pass; dumps can be taken after every pass.
#pragma once

#include <memory>

#include "base/result.h"
#include "graph/build_options.h"
#include "graph/graph.h"
#include "model/model.h"

namespace tessera::graph {

// Import has been done; shapes are inferred here.
Result<Graph> build(const model::Model& model, const BuildOptions& options);
// The same without copies of the model's tensors on the way; the graph does not keep the model.
Result<Graph> build(const std::shared_ptr<const model::Model>& model, const BuildOptions& options);

}  // namespace tessera::graph
