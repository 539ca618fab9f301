// Model -> Graph: the first compiler stage. Each pass is a row of a table and a file of its own;
// the verifier runs after every pass; dumps can be taken after every pass.
#pragma once

#include <functional>
#include <string>

#include "arith/format.h"
#include "base/result.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "model/model.h"

namespace tessera::graph {

struct BuildOptions {
  Format vector_format = Format::kF16;  // f16, bf16 or f32
  MatrixFormat matrix;                  // for float products
  bool quantise_vector_inputs = false;  // operands of element-wise work take `matrix` too
  model::InferOptions infer;
  bool require_full_offload = false;  // a host step is an error
  // Called after each pass with its name and the graph (for --dump-passes); may be empty.
  std::function<void(const std::string& pass, const Graph& graph)> on_pass;
};

// Import has been done; shapes are inferred here.
Result<Graph> build(const model::Model& model, const BuildOptions& options);

// Every rule graph.h states: topological order, one producer, shapes and formats that fit the node,
// constants of the right size. The error names the node and the rule.
Status verify(const Graph& graph);

// Readable text, and back. Constants are references "@name" into a side table unless
// `inline_constants`. parse(dump(g)) == g for everything but the constants' bytes.
std::string dump(const Graph& graph);
using ConstantLookup = std::function<std::shared_ptr<const Tensor>(const std::string& tensor_name)>;
Result<Graph> parse(const std::string& text, const ConstantLookup& constants);

}  // namespace tessera::graph
