// What a network's inputs and outputs are outside and on its devices, of tensors of a graph or
// slots of a program, which say the same of themselves.
#pragma once

#include <vector>

#include "graph/edge_conversion.h"
#include "tessera/network.h"

namespace tessera::network {

struct Edge {
  TensorDescription application, device;
  graph::EdgeConversion layout;  // between the two
};

template <typename Tensor>
Edge edge_of(const Tensor& tensor) {
  const bool blocks = !tensor.dense_dims.empty();
  return {{tensor.name, tensor.format, blocks ? tensor.dense_dims : tensor.dims},
          {tensor.name, tensor.format, tensor.dims, tensor.dense_dims},
          graph::layout_conversion(tensor.format, tensor.dims, tensor.dense_dims)};
}

inline void set_edges(const std::vector<Edge>& edges, std::vector<TensorDescription>& application,
                      std::vector<TensorDescription>& device,
                      std::vector<graph::EdgeConversion>& layouts) {
  bool changes = false;
  for (const Edge& edge : edges) {
    application.push_back(edge.application);
    device.push_back(edge.device);
    layouts.push_back(edge.layout);
    changes = changes || edge.layout.changes();
  }
  if (!changes) layouts.clear();
}

}  // namespace tessera::network
