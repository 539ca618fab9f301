// The device `ref`: nodes in order, each by its definition.
#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "host/executor.h"
#include "host/host_step.h"
#include "host/reference_nodes.h"

namespace tessera::host {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeKind;
using graph::TensorId;

Tensor run_processor_node(const Graph& graph, const Node& node,
                          std::span<const Tensor* const> inputs) {
  switch (node.kind()) {
    case NodeKind::kConv:
      return reference_conv(graph, node, inputs);
    case NodeKind::kMatMul:
      return reference_matmul(graph, node, inputs);
    case NodeKind::kPool:
      return reference_pool(graph, node, inputs);
    case NodeKind::kElementwise:
      return reference_elementwise(graph, node, inputs);
    case NodeKind::kReduce:
      return reference_reduce(graph, node, inputs);
    case NodeKind::kMove:
      return reference_move(graph, node, inputs);
    case NodeKind::kHostStep:
      break;
  }
  TESSERA_CHECK(false, "node '{}' is a host step", node.name);
}

class ReferenceExecutor : public Executor {
 public:
  explicit ReferenceExecutor(std::shared_ptr<const Graph> graph) : graph_(std::move(graph)) {}

  Result<std::vector<Tensor>> run(std::span<const Tensor> inputs,
                                  const NodeObserver& observer) override {
    Table<TensorId, Tensor> values(graph_->tensors.size());
    Table<TensorId, const Tensor*> at(graph_->tensors.size(), nullptr);
    for (std::size_t i = 0; i < graph_->tensors.size(); ++i) {
      at[i] = graph_->tensors[i].constant ? graph_->tensors[i].constant.get() : &values[i];
    }
    for (std::size_t i = 0; i < graph_->inputs.size(); ++i) values[graph_->inputs[i]] = inputs[i];
    node_values_.clear();
    for (const Node& node : graph_->nodes) {
      std::vector<const Tensor*> operands;
      for (const TensorId id : node.inputs) operands.push_back(at[id]);
      if (node.kind() == NodeKind::kHostStep) {
        TESSERA_TRY(std::vector<Tensor> results, run_host_step(node, operands));
        for (std::size_t i = 0; i < node.outputs.size(); ++i) {
          values[node.outputs[i]] = std::move(results[i]);
        }
      } else {
        values[node.outputs[0]] = run_processor_node(*graph_, node, operands);
      }
      look_at(node, values[node.outputs[0]]);
      if (!observer) continue;
      for (const TensorId id : node.outputs) observer(node, id, values[id]);
    }
    std::vector<Tensor> outputs;
    for (const TensorId id : graph_->outputs) outputs.push_back(*at[id]);
    return outputs;
  }

  Status run_on(std::span<const std::span<std::byte>> inputs,
                std::span<const std::span<std::byte>> outputs,
                const NodeObserver& observer) override {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const graph::TensorInfo& info = graph_->tensor(graph_->inputs[i]);
      tensors.push_back({info.format, info.dims, {inputs[i].begin(), inputs[i].end()}});
    }
    bytes_copied_ = 0;
    for (const auto bytes : inputs) bytes_copied_ += std::ssize(bytes);
    for (const auto bytes : outputs) bytes_copied_ += std::ssize(bytes);
    TESSERA_TRY(const std::vector<Tensor> results, run(tensors, observer));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      std::copy(results[i].bytes.begin(), results[i].bytes.end(), outputs[i].begin());
    }
    return {};
  }
  std::int64_t bytes_copied() const override { return bytes_copied_; }
  std::span<const graph::NodeValues> values() const override { return node_values_; }
  // The loops read numbers that are none as the contract says, and keep no flags.
  arith::StickyFlags flags() const override { return {}; }

 private:
  void look_at(const Node& node, const Tensor& made) {
    graph::NodeValues values;
    if (graph::looks_at(*graph_, node)) {
      values.extent =
          arith::ref::value_extent(made.format, made.bytes.data(), element_count(made.dims),
                                   graph::hidden_ends(*graph_, node));
    }
    node_values_.push_back(values);
  }

  const std::shared_ptr<const Graph> graph_;  // shared with the network
  std::int64_t bytes_copied_ = 0;
  std::vector<graph::NodeValues> node_values_;  // of the last run
};

}  // namespace

Result<std::unique_ptr<Executor>> make_reference_executor(
    std::shared_ptr<const graph::Graph> graph) {
  return std::unique_ptr<Executor>(std::make_unique<ReferenceExecutor>(std::move(graph)));
}

}  // namespace tessera::host
