// GraphProto -> Subgraph.
//
//   initializers, inputs, nodes ─► names ─► one definition a value ─► topological order
//                                                                          │
//                         every input is defined where it is used  ◄───────┘   (import_scope.h)
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <string>

#include "base/result.h"
#include "model/import_limits.h"
#include "model/import_names.h"
#include "model/import_narrow.h"
#include "model/import_tensor.h"
#include "model/model.h"

namespace tessera::model {

// What the graphs of one model share while they are read.
struct GraphImport {
  GraphImport(const onnx::GraphProto& graph, const ImportLimits& limits, const std::string& folder,
              const std::map<std::string, std::int64_t>& model_opsets)
      : tensors{limits, folder, 0, {}}, opsets(model_opsets), names(graph) {}

  TensorImport tensors;
  std::map<std::string, std::int64_t> opsets;
  NodeNames names;
  NarrowValues narrow;     // inputs and constants of the main graph
  std::int64_t nodes = 0;  // so far, checked against limits.nodes_max

  const ImportLimits& limits() const { return tensors.limits; }
};

// The main graph, with all that lies in it, once functions are written out. Takes the weights out
// of `graph`.
Result<Subgraph> import_graph(onnx::GraphProto& graph, GraphImport& context);

}  // namespace tessera::model
