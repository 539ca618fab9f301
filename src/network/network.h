// A network loaded for an architecture: chip, typed graph, package; or chip and program. Immutable
// once made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "arch/chip_config.h"
#include "compile/kernel_store.h"
#include "graph/build_options.h"
#include "graph/edge_conversion.h"
#include "graph/graph.h"
#include "model/infer.h"
#include "package/package.h"
#include "tessera/network.h"

namespace tessera {

struct NetworkState {
  std::string path;
  ChipConfig chip;
  // One of the two.
  package::Package package;                        // holds the graph
  std::shared_ptr<const isa::Program> program;     // proved; devices share it; null: a package
  std::vector<TensorDescription> inputs, outputs;  // in the application's form
  // As they lie in a device's memory: the same, or matrices in blocks. With it what is to be done
  // on the way in and out; empty: nothing, for any of them.
  std::vector<TensorDescription> device_inputs, device_outputs;
  std::vector<graph::EdgeConversion> input_layouts, output_layouts;
  Placement placement;
  // Of a package: what its programs for several cores have in common.
  std::shared_ptr<compile::KernelStore> kernels = std::make_shared<compile::KernelStore>();

  const graph::Graph& graph() const { return *package.graph; }  // of a package
};

namespace network {

model::InferOptions infer_options(const LoadOptions& options);
DeclaredShape declared_shape(const model::ValueInfo& value);

// Whether an input may decide what is computed: integers or booleans, at most 64. Data may not, for which each run would
// be compiled anew.
bool may_decide(const Tensor& tensor);
// Of `inputs`, by name, those that the model cannot be compiled without become constants of the options, which have their
// shapes no more. Returns their names, in the order in which they were found to be needed.
std::vector<std::string> bind_deciding(const model::Model& model,
                                       const std::map<std::string, const Tensor*>& inputs,
                                       LoadOptions& options);

// A Loop whose trip count an input decides is written out for so many iterations, and the network made anew for each count;
// for more, its body is a network of its own (DynamicSession).
inline constexpr std::int64_t kWrittenOutMax = 16;
// Whether the model stops at such a Loop with the options `unbound`, and has more iterations with `bound`.
bool is_long_loop(const model::Model& model, const LoadOptions& unbound, const LoadOptions& bound);

// What graph::build() is told of the processor's kernel memory, of which the network has `share`
// (LoadOptions::region_share).
graph::KernelMemory kernel_memory(const ChipConfig& chip, double share);
graph::StateBuffer state_buffer(const ChipConfig& chip, double share);

// The stages of Network::load one by one, for tools that look between them.
Result<std::shared_ptr<const graph::Graph>> load_graph(const std::string& path,
                                                       const ChipConfig& chip,
                                                       const LoadOptions& options);
Result<std::shared_ptr<const graph::Graph>> graph_of_model(const model::Model& model,
                                                           const ChipConfig& chip,
                                                           const LoadOptions& options);
// Inputs and outputs lie as the architecture says, in blocks or dense; or dense in any case.
enum class Edges { kOfArchitecture, kDense };
Result<Network> network_from_graph(std::shared_ptr<const graph::Graph> graph,
                                   const ChipConfig& chip, const LoadOptions& options,
                                   Edges edges = Edges::kOfArchitecture);
Result<Network> network_from_package(package::Package package, const ChipConfig& chip);
// An error where a package of that chip was not compiled for this one.
Status check_architecture(const std::string& chip_name, std::uint64_t chip_fingerprint,
                          const ChipConfig& chip);
// Proves the program, which is for `chip`.
Result<Network> network_from_program(isa::Program program, const std::string& name,
                                     const ChipConfig& chip);
// The same. `arch` empty: the one that is built in and has the program's chip's name.
Result<Network> network_from_program(isa::Program program, const std::string& name,
                                     const std::string& arch);

// As of a network with inputs and outputs for each of so many images, which a run makes at once.
std::shared_ptr<const NetworkState> repeated(const std::shared_ptr<const NetworkState>& network,
                                             int images);

// Of a package its graph; of a program the one that is read out of it (concord/lift/lift.h), each time
// anew. The error says what in a program no graph can say. Its edges are those of the devices.
Result<std::shared_ptr<const graph::Graph>> graph_of(const NetworkState& network);
// The same in the application's form: every edge is dense.
Result<std::shared_ptr<const graph::Graph>> dense_graph_of(const NetworkState& network);
// kUnsupported for a program: `what` needs a package or the model.
Status check_package(const NetworkState& network, const std::string& what);

}  // namespace network
}  // namespace tessera
