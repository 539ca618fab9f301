// Rules of the graph as a whole: names, topological order, one producer, constants of the right
// size. Rules of single nodes are in verify_node.cc.
#include "graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/edge_blocks.h"

namespace tessera::graph {

namespace {

Error broken(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }

// Far above any memory, small enough that sums and products of sizes stay exact.
constexpr std::int64_t kTensorBytesMax = std::int64_t{1} << 44;

Status verify_tensors(const Graph& graph) {
  std::set<std::string> names;
  for (const TensorInfo& tensor : graph.tensors) {
    if (tensor.name.empty()) return broken("a tensor has no name");
    if (!names.insert(tensor.name).second) {
      return broken(fmt::format("tensor '{}': the name is used twice", tensor.name));
    }
    std::int64_t extent = format_bytes(tensor.format);  // empty axes counted as one
    for (const std::int64_t dim : tensor.dims) {
      if (dim < 0) return broken(fmt::format("tensor '{}': a dimension is {}", tensor.name, dim));
      if (dim > 0 && extent > kTensorBytesMax / dim) {
        return broken(
            fmt::format("tensor '{}' has more than {} bytes", tensor.name, kTensorBytesMax));
      }
      extent *= std::max<std::int64_t>(dim, 1);
    }
    if (!tensor.dense_dims.empty()) {
      const std::string wrong = broken_blocks(tensor.dims, tensor.dense_dims);
      if (!wrong.empty()) return broken(fmt::format("tensor '{}': {}", tensor.name, wrong));
    }
    if (tensor.constant == nullptr) continue;
    const Tensor& constant = *tensor.constant;
    if (constant.format != tensor.format || constant.dims != tensor.dims) {
      return broken(
          fmt::format("tensor '{}': the constant has another format or shape", tensor.name));
    }
    const std::int64_t bytes = element_count(tensor.dims) * format_bytes(tensor.format);
    if (static_cast<std::int64_t>(constant.bytes.size()) != bytes) {
      return broken(fmt::format("tensor '{}': the constant has {} bytes, its shape needs {}",
                                tensor.name, constant.bytes.size(), bytes));
    }
  }
  return {};
}

bool in_range(const Graph& graph, TensorId id) {
  return id.value >= 0 && id.value < static_cast<std::int32_t>(graph.tensors.size());
}

Status verify_links(const Graph& graph, const Node& node, Table<TensorId, bool>& available) {
  for (const TensorId id : node.inputs) {
    if (!in_range(graph, id)) {
      return broken(fmt::format("node '{}': an input is no tensor of the graph", node.name));
    }
    if (!available[id]) {
      return broken(fmt::format("node '{}': input '{}' is used before it is produced", node.name,
                                graph.tensor(id).name));
    }
  }
  for (const TensorId id : node.outputs) {
    if (!in_range(graph, id)) {
      return broken(fmt::format("node '{}': an output is no tensor of the graph", node.name));
    }
    if (available[id]) {
      return broken(fmt::format("node '{}': output '{}' has another producer", node.name,
                                graph.tensor(id).name));
    }
    available[id] = true;
  }
  return {};
}

}  // namespace

Status verify_at(const Graph& graph, Stage stage) {
  TESSERA_RETURN_IF_ERROR(verify_tensors(graph));
  Table<TensorId, bool> available;
  for (const TensorInfo& tensor : graph.tensors) available.push_back(tensor.constant != nullptr);
  for (const TensorId id : graph.inputs) {
    if (!in_range(graph, id)) return broken("a graph input is no tensor of the graph");
    if (available[id]) {
      return broken(
          fmt::format("graph input '{}' is a constant, or an input twice", graph.tensor(id).name));
    }
    available[id] = true;
  }
  std::set<std::string> names;
  for (const Node& node : graph.nodes) {
    if (node.name.empty()) return broken("a node has no name");
    if (!names.insert(node.name).second) {
      return broken(fmt::format("node '{}': the name is used twice", node.name));
    }
    TESSERA_RETURN_IF_ERROR(verify_links(graph, node, available));
    if (const std::string rule = broken_node_rule(graph, node, stage); !rule.empty()) {
      return broken(
          fmt::format("node '{}' ({}): {}", node.name, node_kind_name(node.kind()), rule));
    }
  }
  for (const TensorId id : graph.outputs) {
    if (!in_range(graph, id)) return broken("a graph output is no tensor of the graph");
    if (!available[id]) {
      return broken(fmt::format("graph output '{}' is never produced", graph.tensor(id).name));
    }
  }
  return {};
}

}  // namespace tessera::graph
