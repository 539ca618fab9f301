// A network loaded for an architecture: chip, typed graph, package. Immutable once made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "program/program.h"
#include "tessera/session.h"

namespace tessera {

struct NetworkState {
  std::string path;
  ChipConfig chip;
  program::Package package;  // holds the graph
  std::vector<TensorDescription> inputs, outputs;
  Placement placement;

  const graph::Graph& graph() const { return *package.graph; }
};

namespace network {

model::InferOptions infer_options(const LoadOptions& options);

// The stages of Network::load one by one, for tools that look between them.
Result<std::shared_ptr<const graph::Graph>> load_graph(const std::string& path,
                                                       const ChipConfig& chip,
                                                       const LoadOptions& options);
Result<std::shared_ptr<const graph::Graph>> graph_of_model(const model::Model& model,
                                                           const ChipConfig& chip,
                                                           const LoadOptions& options);
Result<Network> network_from_graph(std::shared_ptr<const graph::Graph> graph,
                                   const ChipConfig& chip, const LoadOptions& options);
Result<Network> network_from_package(program::Package package, const ChipConfig& chip);

}  // namespace network
}  // namespace tessera
