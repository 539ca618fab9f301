// A model's graph, or a random one, as derived ONNX with golden vectors from the host device: what
// check_golden.cjs runs. The graph is the builder's; the verb `derive` goes by way of a program.
//
//   derive_graph MODEL.onnx|random:SEED|products:FORMAT|zeros FOLDER [VECTORS]     FORMAT as in --format
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "arch/architecture_file.h"
#include "concord/expand/expand.h"
#include "concord/fold/fold.h"
#include "concord/testing/random_graph.h"
#include "concord/write/layer_nodes.h"
#include "concord/write/onnx.h"
#include "host/executor.h"
#include "network/network.h"
#include "package/container.h"
#include "tessera/file.h"
#include "tools/files/golden.h"
#include "tools/files/tensor_file.h"

namespace tessera {
namespace {

Result<std::shared_ptr<const graph::Graph>> load(const std::string& source) {
  const std::string prefix = "random:";
  if (source.starts_with(prefix)) {
    const auto seed = static_cast<std::uint32_t>(std::stoul(source.substr(prefix.size())));
    return std::make_shared<const graph::Graph>(concord::testing::random_graph(seed, 6));
  }
  if (source == "zeros") {
    return std::make_shared<const graph::Graph>(concord::testing::zeros_graph());
  }
  const std::string products = "products:";
  if (source.starts_with(products)) {
    TESSERA_TRY(const ChipConfig chip,
                load_chip_config("tessera128+" + source.substr(products.size())));
    return std::make_shared<const graph::Graph>(
        concord::testing::product_graph(1, chip.formats.matrix));
  }
  TESSERA_TRY(const ChipConfig chip, load_chip_config("tessera128"));
  return network::load_graph(source, chip, {});
}

std::vector<Tensor> inputs_of(const graph::Graph& graph, int vector) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::TensorInfo& info = graph.tensor(graph.inputs[i]);
    const TensorDescription wanted = {info.name, info.format, info.dims};
    const auto seed = static_cast<std::uint64_t>(vector);
    inputs.push_back(vector == 0 ? tools::random_tensor(wanted, seed, i)
                                 : tools::edge_tensor(wanted, seed, i));
  }
  return inputs;
}

Status derive(const std::string& source, const std::string& folder, int vectors) {
  TESSERA_TRY(const auto graph, load(source));
  TESSERA_TRY(const concord::Software unrolled, concord::expand(*graph));
  const concord::Software software = concord::folded(unrolled);
  TESSERA_TRY(const std::vector<std::byte> model, concord::write_onnx(software));
  tools::GoldenSet golden;
  for (const concord::Port& port : software.inputs) golden.input_names.push_back(port.name);
  for (const concord::Port& port : software.outputs) golden.output_names.push_back(port.name);
  TESSERA_TRY(const auto host, host::make_host_executor(graph));
  for (int i = 0; i < vectors; ++i) {
    tools::GoldenVector vector;
    vector.source = fmt::format("{}:{}", i == 0 ? "random" : "edges", i);
    vector.inputs = inputs_of(*graph, i);
    TESSERA_TRY(vector.outputs, host->run(vector.inputs));
    golden.vectors.push_back(std::move(vector));
  }
  TESSERA_RETURN_IF_ERROR(tools::write_golden(folder, golden));
  TESSERA_RETURN_IF_ERROR(write_file(folder + "/derived.onnx", model));
  const concord::LayerNodes nodes = concord::count_layer_nodes(software);
  std::error_code error;
  const auto original = std::filesystem::file_size(source, error);
  fmt::print(
      "{}: {} layers, {} nodes; {} matrix layers of {} to {} nodes, {:.1f} on average; {} "
      "bytes{}\n",
      source, nodes.layers, nodes.nodes, nodes.matrix_layers, nodes.matrix_nodes_min,
      nodes.matrix_nodes_max, nodes.matrix_nodes_mean(), model.size(),
      error ? ""
            : fmt::format(", {:.2f} times the model's",
                          static_cast<double>(model.size()) / static_cast<double>(original)));
  return {};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(
        stderr,
        "usage: derive_graph MODEL.onnx|random:SEED|products:FORMAT|zeros FOLDER [VECTORS]\n");
    return 2;
  }
  const tessera::Status status =
      tessera::derive(argv[1], argv[2], argc > 3 ? std::atoi(argv[3]) : 3);
  if (status.ok()) return 0;
  fmt::print(stderr, "{}\n", status.error().to_string());
  return 1;
}
