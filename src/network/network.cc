#include "network/network.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/architecture_file.h"
#include "arith/format.h"
#include "base/application_call.h"
#include "base/guarded.h"
#include "compile/compile.h"
#include "graph/build.h"
#include "graph/replace_weights.h"
#include "graph/weight_grid.h"
#include "isa/core_region.h"
#include "model/given_inputs.h"
#include "model/import.h"
#include "network/edges.h"
#include "network/firmware_file.h"
#include "package/container.h"
#include "tessera/file.h"

namespace tessera {
namespace {

std::vector<network::Edge> edges_of(const graph::Graph& graph,
                                    const std::vector<graph::TensorId>& ids) {
  std::vector<network::Edge> edges;
  for (const graph::TensorId id : ids) edges.push_back(network::edge_of(graph.tensor(id)));
  return edges;
}

// Nodes are counted as the typed graph has them, after fusion.
Placement placement_of(const graph::Graph& graph) {
  Placement placement;
  placement.notes = graph.notes;
  for (const graph::Node& node : graph.nodes) {
    if (node.kind() == graph::NodeKind::kHostStep) {
      const auto& step = node.as<graph::HostStepAttributes>();
      ++placement.nodes_on_host;
      placement.host_steps.push_back({node.name, step.node.op_type, step.reason});
    } else {
      ++placement.nodes_on_processor;
    }
  }
  return placement;
}

void report(const LoadOptions& options, const char* stage, double fraction) {
  if (options.progress) options.progress(stage, fraction);
}

// A model's output that is an input is a copy of it, which cannot have its name in the graph (Lowering::finished_output);
// outside it has.
void name_copied_outputs(const graph::Graph& graph, std::vector<TensorDescription>& outputs) {
  for (const graph::Node& node : graph.nodes) {
    if (node.origins.size() != 1 || node.outputs.size() != 1) continue;
    const std::string& origin = node.origins[0];
    const auto is_origin = [&](graph::TensorId id) { return graph.tensor(id).name == origin; };
    if (!node.name.starts_with("convert_" + origin) ||
        std::ranges::none_of(graph.inputs, is_origin)) {
      continue;
    }
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      if (graph.outputs[i] == node.outputs[0]) outputs[i].name = origin;
    }
  }
}

Network make_network(const std::string& path, const ChipConfig& chip, package::Package package) {
  auto state = std::make_shared<NetworkState>();
  state->path = path;
  state->chip = chip;
  state->package = std::move(package);
  const graph::Graph& graph = state->graph();
  network::set_edges(edges_of(graph, graph.inputs), state->inputs, state->device_inputs,
                     state->input_layouts);
  network::set_edges(edges_of(graph, graph.outputs), state->outputs, state->device_outputs,
                     state->output_layouts);
  name_copied_outputs(graph, state->outputs);
  state->placement = placement_of(state->graph());
  return Network(std::move(state));
}

}  // namespace

namespace network {

DeclaredShape declared_shape(const model::ValueInfo& value) {
  DeclaredShape shape{value.name, {}, value.format, value.has_shape};
  for (const model::Dimension& dim : value.dims) shape.dims.push_back(dim.value);
  return shape;
}

bool may_decide(const Tensor& tensor) {
  constexpr std::int64_t kElementsMax = 64;
  return !format_is_float(tensor.format) && element_count(tensor.dims) <= kElementsMax;
}

std::vector<std::string> bind_deciding(const model::Model& model,
                                       const std::map<std::string, const Tensor*>& inputs,
                                       LoadOptions& options) {
  std::vector<std::string> bound;
  for (bool found = true; found;) {
    found = false;
    for (const std::string& name :
         model::inputs_that_decide_shapes(model, infer_options(options))) {
      const auto input = inputs.find(name);
      if (input == inputs.end() || options.constants.contains(name)) continue;
      options.constants[name] = *input->second;
      options.shapes.erase(name);
      bound.push_back(name);
      found = true;
    }
  }
  return bound;
}

bool is_long_loop(const model::Model& model, const LoadOptions& unbound, const LoadOptions& bound) {
  const auto stop = model::node_that_data_decides(model, infer_options(unbound));
  if (!stop || model.graph.nodes[*stop].op_type != "Loop") return false;
  model::InferOptions limited = infer_options(bound);
  limited.iterations_max[model.graph.nodes[*stop].name] = kWrittenOutMax;
  return model::node_that_data_decides(model, limited) == stop;
}

model::InferOptions infer_options(const LoadOptions& options) {
  model::InferOptions infer;
  infer.shapes = options.shapes;
  infer.lengths = options.lengths;
  if (options.open_shape) {
    infer.open_shape = [ask = options.open_shape](const model::ValueInfo& input) {
      return ask(declared_shape(input));
    };
  }
  for (const auto& [name, tensor] : options.constants) {
    infer.constants[name] = std::make_shared<const Tensor>(tensor);
  }
  return infer;
}

graph::KernelMemory kernel_memory(const ChipConfig& chip, double share) {
  const std::int64_t bytes = chip.neural.kernel_bytes_per_partition;
  return {.rows = chip.neural.rows,
          .columns = chip.neural.columns,
          .bytes_per_partition = share > 0 && share < 1 ? isa::share_of(bytes, share) : bytes};
}

graph::StateBuffer state_buffer(const ChipConfig& chip, double share) {
  const std::int64_t bytes = chip.state_buffer.bytes_per_partition;
  return {.partitions = chip.state_buffer.partitions,
          .bytes_per_partition = share > 0 && share < 1 ? isa::share_of(bytes, share) : bytes};
}

namespace {

// Of a model, or of one that is shared.
template <typename Model>
Result<std::shared_ptr<const graph::Graph>> graph_from(const Model& model, const ChipConfig& chip,
                                                       const LoadOptions& options) {
  report(options, "graph", 0);
  Watch watch(options.progress, options.deadline);
  graph::BuildOptions build;
  build.watch = &watch;
  build.vector_format = chip.formats.vector;
  build.matrix = chip.formats.matrix;
  build.quantise_vector_inputs = chip.formats.vector_inputs == VectorInputs::kQuantised;
  build.quantised_bytes = chip.formats.quantised_bytes;
  build.kernel_memory = kernel_memory(chip, options.region_share);
  build.state_buffer = state_buffer(chip, options.region_share);
  build.lane_elements = chip.planar.elements_per_lane;
  build.infer = infer_options(options);
  build.layers = options.layer_formats;
  build.require_full_offload = options.require_full_offload;
  TESSERA_TRY(graph::Graph graph, graph::build(model, build));
  if (!options.weights.empty()) {
    TESSERA_TRY(graph, graph::replace_weights(std::move(graph), options.weights));
  }
  graph::put_weights_on_grid(graph, chip.formats.weight_grid());
  report(options, "graph", 1);
  return std::shared_ptr<const graph::Graph>(
      std::make_shared<const graph::Graph>(std::move(graph)));
}

// The model's tensors are not copied, and gone with it when this returns.
Result<std::shared_ptr<const graph::Graph>> graph_of_import(Result<model::Model> imported,
                                                            const ChipConfig& chip,
                                                            const LoadOptions& options) {
  if (!imported.ok()) return imported.error();
  // Shared by the constants of the graph while it is built.
  model::give_inputs(*imported, options.given);
  const auto model = std::make_shared<const model::Model>(std::move(imported).value());
  return graph_from(model, chip, options);
}

}  // namespace

Result<std::shared_ptr<const graph::Graph>> load_graph(const std::string& path,
                                                       const ChipConfig& chip,
                                                       const LoadOptions& options) {
  report(options, "import", 0);
  return graph_of_import(model::import_file(path), chip, options);
}

Result<std::shared_ptr<const graph::Graph>> graph_of_model(const model::Model& model,
                                                           const ChipConfig& chip,
                                                           const LoadOptions& options) {
  return graph_from(model, chip, options);
}

namespace {

// The bytes of a region (isa/core_region.h): all, or a multiple of its alignment.
Status bound_memories(double share, const ChipConfig& chip, compile::CompileOptions& options) {
  if (!(share > 0 && share <= 1)) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("LoadOptions::region_share is {}, allowed above 0 and at most 1", share)};
  }
  if (share == 1) return {};
  options.state_buffer_bytes = isa::share_of(chip.state_buffer.bytes_per_partition, share);
  options.kernel_memory_bytes = isa::share_of(chip.neural.kernel_bytes_per_partition, share);
  if (options.state_buffer_bytes > 0 && options.kernel_memory_bytes > 0) return {};
  return Error{ErrorCode::kDoesNotFit,
               fmt::format("LoadOptions::region_share of {} leaves {} bytes of a state buffer "
                           "partition and {} of a kernel memory partition; choose a larger one",
                           share, options.state_buffer_bytes, options.kernel_memory_bytes)};
}

}  // namespace

Result<Network> network_from_graph(std::shared_ptr<const graph::Graph> graph,
                                   const ChipConfig& chip, const LoadOptions& options,
                                   Edges edges) {
  report(options, "compile", 0);
  const graph::BlockLayout layout{chip.dram.edge_block_rows, chip.dram.edge_block_columns};
  if (edges == Edges::kOfArchitecture && layout.blocked()) {
    graph = std::make_shared<const graph::Graph>(graph::block_edges(*graph, layout));
  }
  compile::CompileOptions compile_options{.tile_budget_bytes = options.tile_budget_bytes,
                                          .resident = options.resident,
                                          .compress_weights = options.compress_weights};
  Watch watch(options.progress, options.deadline);
  compile_options.watch = &watch;
  TESSERA_RETURN_IF_ERROR(bound_memories(options.region_share, chip, compile_options));
  const std::string name = graph->name;
  TESSERA_TRY(package::Package package, compile::compile(std::move(graph), chip, compile_options));
  report(options, "compile", 1);
  return make_network(name, chip, std::move(package));
}

Status check_architecture(const std::string& chip_name, std::uint64_t chip_fingerprint,
                          const ChipConfig& chip) {
  if (chip_fingerprint == fingerprint(chip)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the package was compiled for '{}' (fingerprint {:016x}), the "
                           "architecture given is '{}' ({:016x}); compile the model again or "
                           "choose that architecture",
                           chip_name, chip_fingerprint, chip.name, fingerprint(chip))};
}

Result<Network> network_from_package(package::Package package, const ChipConfig& chip) {
  TESSERA_RETURN_IF_ERROR(check_architecture(package.chip_name, package.chip_fingerprint, chip));
  const std::string name = package.graph->name;
  return make_network(name, chip, std::move(package));
}

std::shared_ptr<const NetworkState> repeated(const std::shared_ptr<const NetworkState>& network,
                                             int images) {
  if (images == 1) return network;
  auto result = std::make_shared<NetworkState>(*network);
  const auto repeat = [images](auto& list) {
    const auto once = list;
    for (int image = 1; image < images; ++image) list.insert(list.end(), once.begin(), once.end());
  };
  for (auto* const list :
       {&result->inputs, &result->outputs, &result->device_inputs, &result->device_outputs}) {
    repeat(*list);
  }
  repeat(result->input_layouts);
  repeat(result->output_layouts);
  return result;
}

}  // namespace network

namespace {

// The default is not asked for: a program or a firmware text brings its own.
std::string arch_of_program(const LoadOptions& options) {
  return options.arch == LoadOptions{}.arch ? "" : options.arch;
}

// What belongs to the model, and is settled in a program.
Status check_program_options(const LoadOptions& options, const std::string& name) {
  const char* const fixed = !options.shapes.empty()          ? "shapes"
                            : !options.constants.empty()     ? "constants"
                            : !options.lengths.empty()       ? "lengths"
                            : !options.weights.empty()       ? "weights"
                            : options.tile_budget_bytes != 0 ? "tile_budget_bytes"
                            : !options.resident              ? "resident"
                            : !options.compress_weights      ? "compress_weights"
                            : options.region_share != 1      ? "region_share"
                                                             : nullptr;
  if (fixed == nullptr) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' is a program, which is compiled already; LoadOptions::{} is for "
                           "models",
                           name, fixed)};
}

// Of a program in memory.
package::WeightsPlaces places_of(const LoadOptions& options) {
  package::WeightsPlaces places{options.weights_file, std::nullopt};
  if (!options.folder.empty()) places.folder = options.folder;
  return places;
}

// Only linked programs take their weights from a file.
Status check_weights_file(const LoadOptions& options, package::FileKind kind,
                          const std::string& name) {
  if (options.weights_file.empty() || kind == package::FileKind::kProgram) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("'{}' is no linked program; LoadOptions::weights_file is for those whose "
                  "weights are elsewhere",
                  name)};
}

Result<Network> network_of_program(isa::Program program, const std::string& name,
                                   const LoadOptions& options) {
  TESSERA_TRY(Network network,
              network::network_from_program(std::move(program), name, arch_of_program(options)));
  const Placement& placement = network.placement();
  if (!options.require_full_offload || placement.host_steps.empty()) return network;
  const HostStepNote& step = placement.host_steps.front();
  return Error{ErrorCode::kUnsupported,
               fmt::format("'{}': node '{}' ({}) runs on the host ({}), and full offload is "
                           "required",
                           name, step.node, step.operator_name, step.reason)};
}

Result<Network> compile_graph(std::shared_ptr<const graph::Graph> graph, const std::string& name,
                              const ChipConfig& chip, const LoadOptions& options) {
  auto network = network::network_from_graph(std::move(graph), chip, options);
  if (!network.ok()) return network.error().with_context("compiling '" + name + "'");
  return network;
}

Result<Network> load_file(const std::string& path, const LoadOptions& options) {
  const package::FileKind kind = package::kind_of_file(path);
  TESSERA_RETURN_IF_ERROR(check_weights_file(options, kind, path));
  if (network::is_program_file(path)) {
    TESSERA_RETURN_IF_ERROR(check_program_options(options, path));
    TESSERA_TRY(isa::Program program,
                kind == package::FileKind::kProgram
                    ? package::load_program(path, {options.weights_file, std::nullopt})
                    : network::assemble_file(path, arch_of_program(options)));
    return network_of_program(std::move(program), path, options);
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config(options.arch));
  if (kind == package::FileKind::kPackage) {
    TESSERA_TRY(package::Package package, package::load_package(path));
    return network::network_from_package(std::move(package), chip);
  }
  TESSERA_TRY(auto graph, network::load_graph(path, chip, options));
  return compile_graph(std::move(graph), path, chip, options);
}

Result<Network> load_from_memory(std::span<const std::byte> bytes, const std::string& name,
                                 const LoadOptions& options) {
  const package::FileKind kind = package::file_kind(bytes);
  TESSERA_RETURN_IF_ERROR(check_weights_file(options, kind, name));
  const bool text = kind == package::FileKind::kOther && network::is_firmware_text(bytes);
  if (kind == package::FileKind::kProgram || text) {
    TESSERA_RETURN_IF_ERROR(check_program_options(options, name));
    TESSERA_TRY(isa::Program program,
                text
                    ? network::assemble_bytes(bytes, name, arch_of_program(options), options.folder)
                    : package::parse_program(bytes, name, places_of(options)));
    return network_of_program(std::move(program), name, options);
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config(options.arch));
  if (kind == package::FileKind::kPackage) {
    TESSERA_TRY(package::Package package, package::parse_package(bytes, name));
    return network::network_from_package(std::move(package), chip);
  }
  report(options, "import", 0);
  TESSERA_TRY(auto graph, network::graph_of_import(model::import_bytes(bytes, name, options.folder),
                                                   chip, options));
  return compile_graph(std::move(graph), name, chip, options);
}

// load(options), where what the application's progress callback throws is the error.
template <typename Load>
Result<Network> with_progress(const LoadOptions& options, const Load& load) {
  return guarded("loading a network", [&]() -> Result<Network> {
    ProgressReport progress(options.progress);
    LoadOptions contained = options;
    contained.progress = [&progress](const std::string& stage, double fraction) {
      progress.report(stage, fraction);
    };
    auto network = load(contained);
    TESSERA_RETURN_IF_ERROR(progress.take_status());
    return network;
  });
}

}  // namespace

Result<Network> Network::load(const std::string& path, const LoadOptions& options) {
  return with_progress(options,
                       [&](const LoadOptions& contained) { return load_file(path, contained); });
}

Result<Network> Network::load_bytes(std::span<const std::byte> bytes, const LoadOptions& options,
                                    const std::string& name) {
  return with_progress(options, [&](const LoadOptions& contained) {
    return load_from_memory(bytes, name, contained);
  });
}

Result<DeclaredShapes> Network::declared_shapes(const std::string& path) {
  return guarded("reading a model", [&]() -> Result<DeclaredShapes> {
    if (network::is_program_file(path) ||
        package::kind_of_file(path) == package::FileKind::kPackage) {
      return DeclaredShapes{};
    }
    TESSERA_TRY(const model::Model model, model::import_file(path));
    const auto declared = [](const std::vector<model::ValueInfo>& values) {
      std::vector<DeclaredShape> shapes;
      for (const model::ValueInfo& value : values) {
        if (value.kind != model::ValueKind::kTensor) continue;
        shapes.push_back(network::declared_shape(value));
      }
      return shapes;
    };
    return DeclaredShapes{declared(model.graph.inputs), declared(model.graph.outputs)};
  });
}

const std::vector<TensorDescription>& Network::inputs() const { return state_->inputs; }
const std::vector<TensorDescription>& Network::outputs() const { return state_->outputs; }
const Placement& Network::placement() const { return state_->placement; }

Status Network::save_package(const std::string& path) const {
  return guarded("saving a package", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(network::check_package(*state_, "saving a package"));
    return package::write_package(path, state_->package);
  });
}

}  // namespace tessera
