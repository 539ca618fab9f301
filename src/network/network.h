// A network loaded for an architecture: chip, typed graph, package; or chip and program. Immutable
// once made.
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
  // One of the two.
  program::Package package;                         // holds the graph
  std::shared_ptr<const program::Program> program;  // proved; devices share it; null: a package
  std::vector<TensorDescription> inputs, outputs;
  Placement placement;

  const graph::Graph& graph() const { return *package.graph; }  // of a package
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
// Proves the program. `arch` empty: the one that is built in and has the program's chip's name.
Result<Network> network_from_program(program::Program program, const std::string& name,
                                     const std::string& arch);

// Of a package its graph; of a program the one that is read out of it (concord/lift.h), each time
// anew. The error says what in a program no graph can say.
Result<std::shared_ptr<const graph::Graph>> graph_of(const NetworkState& network);
// kUnsupported for a program: `what` needs a package or the model.
Status check_package(const NetworkState& network, const std::string& what);

}  // namespace network
}  // namespace tessera
