// Typed graph -> derived software with the same bits (docs/concordance.md has the form of every
// operation).
#pragma once

#include <string>

#include "base/result.h"
#include "concord/software.h"
#include "graph/graph.h"

namespace tessera::concord {

struct ExpandOptions {
  // The result of this node is rounded one bit shorter: a planted fault, to see that it is found.
  std::string fault_node;
  // Constant weights and biases of products are values that may be changed (Value::trained), in the
  // order PyTorch has them, and are rounded and quantised by steps. Those of integer products are
  // numbers that stand for integers (Value::elements).
  bool trainable = false;
};

// An error names the first node that has no exact form, the reason and the way out.
Result<Software> expand(const graph::Graph& graph, const ExpandOptions& options = {});

}  // namespace tessera::concord
