// One lifted layer as a node of the graph.
#pragma once

#include <string>

#include "base/result.h"
#include "concord/lift/groups.h"
#include "concord/lift/tensors.h"
#include "concord/lift/walk.h"

namespace tessera::concord {

struct LayerNames {
  std::string name;                  // unique
  std::vector<std::string> origins;  // ONNX nodes
};

// Adds the node and, in front of it, the Moves that it needs; says which tensor its value is.
Status add_layer(const Group& group, const LiftedLayer& layer, const LayerNames& names,
                 LiftedTensors& tensors, graph::Graph& graph);

}  // namespace tessera::concord
