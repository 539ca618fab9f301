#include "runtime/compare.h"

#include <fmt/format.h>

#include <cstring>

#include "arith/rounding.h"

namespace tessera::runtime {
namespace {

// The graph with every node's result as an output, in topological order.
std::shared_ptr<const graph::Graph> with_all_outputs(const graph::Graph& graph,
                                                     std::vector<std::string>& layers) {
  auto result = std::make_shared<graph::Graph>(graph);
  result->outputs.clear();
  for (const graph::Node& node : graph.nodes) {
    for (const graph::TensorId id : node.outputs) {
      result->outputs.push_back(id);
      layers.push_back(node.name);
    }
  }
  return result;
}

// Flips the top bit of the mantissa of every element of the node's first constant.
Result<std::shared_ptr<const graph::Graph>> with_fault(const graph::Graph& graph,
                                                       const std::string& node_name) {
  auto result = std::make_shared<graph::Graph>(graph);
  for (const graph::Node& node : result->nodes) {
    if (node.name != node_name) continue;
    for (const graph::TensorId id : node.inputs) {
      graph::TensorInfo& tensor = result->tensor(id);
      if (!tensor.constant) continue;
      auto changed = std::make_shared<Tensor>(*tensor.constant);
      const auto element = static_cast<std::size_t>(format_bytes(tensor.format));
      const std::size_t byte = element - 1;  // sign, exponent and top mantissa bits
      for (std::size_t at = 0; at + byte < changed->bytes.size(); at += element) {
        changed->bytes[at + byte] ^= std::byte{0x02};
      }
      tensor.constant = std::move(changed);
      return std::shared_ptr<const graph::Graph>(std::move(result));
    }
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("node '{}' has no constant to plant a fault in", node_name)};
  }
  return Error{ErrorCode::kInvalidArgument, fmt::format("there is no node '{}'", node_name)};
}

Result<std::vector<Tensor>> run_side(std::shared_ptr<const graph::Graph> graph,
                                     const ChipConfig& chip, const std::vector<Tensor>& inputs,
                                     const LoadOptions& load, const SessionOptions& session) {
  TESSERA_TRY(const Network network, network::network_from_graph(std::move(graph), chip, load));
  TESSERA_TRY(Session opened, Session::open(network, session));
  TESSERA_TRY(RunResult result, opened.run(inputs));
  return std::move(result.outputs);
}

Shape position_of(std::int64_t index, const Shape& dims) {
  Shape position(dims.size(), 0);
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    position[axis] = index % dims[axis];
    index /= dims[axis];
  }
  return position;
}

LayerComparison compare_tensors(const std::string& layer, const TensorDescription& description,
                                const Tensor& a, const Tensor& b) {
  LayerComparison result;
  result.layer = layer;
  result.tensor = description.name;
  result.format = description.format;
  result.dims = description.dims;
  result.elements = element_count(description.dims);
  const auto element = static_cast<std::size_t>(format_bytes(description.format));
  for (std::int64_t i = 0; i < result.elements; ++i) {
    const std::byte* pa = a.bytes.data() + static_cast<std::size_t>(i) * element;
    const std::byte* pb = b.bytes.data() + static_cast<std::size_t>(i) * element;
    if (std::memcmp(pa, pb, element) == 0) continue;
    if (result.different++ > 0) continue;
    result.first_index = i;
    result.first_position = position_of(i, description.dims);
    result.first_a = arith::read_element(description.format, pa);
    result.first_b = arith::read_element(description.format, pb);
  }
  return result;
}

// Compares tensors of both sides pairwise and appends the findings.
void append(const graph::Graph& graph, const std::vector<std::string>& layers,
            const std::vector<Tensor>& a, const std::vector<Tensor>& b, Comparison& result) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const graph::TensorInfo& info = graph.tensor(graph.outputs[i]);
    result.layers.push_back(
        compare_tensors(layers[i], {info.name, info.format, info.dims}, a[i], b[i]));
    result.values_compared += result.layers.back().elements;
    result.mismatches += result.layers.back().different;
    if (result.layers.back().different > 0 && !result.first_layer) {
      result.first_layer = result.layers.size() - 1;
    }
  }
}

}  // namespace

Result<Comparison> compare(const std::shared_ptr<const graph::Graph>& graph, const ChipConfig& chip,
                           const std::vector<Tensor>& inputs, const CompareOptions& options) {
  std::vector<std::string> layers;
  const auto side_a = with_all_outputs(*graph, layers);
  std::shared_ptr<const graph::Graph> side_b = side_a;
  std::shared_ptr<const graph::Graph> program_b = graph;
  if (!options.fault_node.empty()) {
    TESSERA_TRY(side_b, with_fault(*side_a, options.fault_node));
    TESSERA_TRY(program_b, with_fault(*graph, options.fault_node));
  }
  Comparison result;
  TESSERA_TRY(const auto a, run_side(side_a, chip, inputs, options.load, options.a));
  TESSERA_TRY(const auto b, run_side(side_b, chip, inputs, options.load, options.b));
  append(*side_a, layers, a, b, result);
  // Where every result is an output, nothing stays in the state buffer as it does otherwise; so the
  // program that users run is compared as well.
  TESSERA_TRY(const auto program_a, run_side(graph, chip, inputs, options.load, options.a));
  TESSERA_TRY(const auto outputs_b, run_side(program_b, chip, inputs, options.load, options.b));
  append(*graph, std::vector<std::string>(graph->outputs.size(), "(outputs of the whole program)"),
         program_a, outputs_b, result);
  return result;
}

}  // namespace tessera::runtime
