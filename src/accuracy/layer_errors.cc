#include "accuracy/layer_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "accuracy/outputs.h"
#include "arith/format.h"
#include "arith/rounding.h"
#include "graph/node_graph.h"
#include "graph/value_notes.h"
#include "host/executor.h"

namespace tessera::accuracy {
namespace {

using graph::Graph;
using graph::Node;
using graph::TensorId;

// What float32 made of each tensor of the graph.
using Values = Table<TensorId, Tensor>;

Tensor in_format(const Tensor& tensor, Format format) {
  if (tensor.format == format) return tensor;
  Tensor result = Tensor::zeros(format, tensor.dims);
  const auto from = static_cast<std::size_t>(format_bytes(tensor.format));
  const auto to = static_cast<std::size_t>(format_bytes(format));
  for (std::size_t i = 0; i * from < tensor.bytes.size(); ++i) {
    arith::write_element(format, arith::read_element(tensor.format, tensor.bytes.data() + i * from),
                         result.bytes.data() + i * to);
  }
  return result;
}

// The same nodes with binary32 in place of the vector format, and products of floats in place of blocks. Weights
// stay rounded as they are.
Graph float32_twin(const Graph& graph) {
  Graph twin = graph;
  twin.vector_format = Format::kF32;
  for (graph::Node& node : twin.nodes) {
    MatrixFormat* const matrix = matrix_of(node);
    if (matrix != nullptr && matrix->kind != MatrixKind::kInteger)
      matrix->kind = MatrixKind::kFloat;
    if (node.kind() == graph::NodeKind::kElementwise) {
      node.as<graph::ElementwiseAttributes>().gain_format = Format::kF32;
    }
    if (node.kind() != graph::NodeKind::kMove) continue;
    auto& move = node.as<graph::MoveAttributes>();
    const Format format = graph.tensor(node.outputs[0]).format;
    if (!move.has_fill || !format_is_vector(format)) continue;
    move.fill = arith::round_to(Format::kF32, arith::value_of_bits(format, move.fill));
  }
  for (graph::TensorInfo& tensor : twin.tensors) {
    if (!format_is_vector(tensor.format)) continue;
    tensor.format = Format::kF32;
    if (tensor.constant == nullptr) continue;
    tensor.constant = std::make_shared<const Tensor>(in_format(*tensor.constant, Format::kF32));
  }
  return twin;
}

std::vector<Tensor> in_formats_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> converted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    converted.push_back(in_format(inputs[i], graph.tensor(graph.inputs[i]).format));
  }
  return converted;
}

Result<Values> float32_values(const Graph& graph, const FormatCases& cases) {
  const auto twin = std::make_shared<const Graph>(float32_twin(graph));
  TESSERA_TRY(const auto executor, host::make_host_executor(twin, {.threads = cases.threads}));
  Values values(graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (twin->tensors[i].constant != nullptr) values[i] = *twin->tensors[i].constant;
  }
  const std::vector<Tensor> inputs = in_formats_of(*twin, cases.inputs.front());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[twin->inputs[i]] = inputs[i];
  TESSERA_TRY(const auto outputs,
              executor->run(inputs, [&](const Node&, TensorId id, const Tensor& value) {
                values[id] = value;
              }));
  (void)outputs;
  return values;
}

// LayerFormats::wide names values before their channels are equalised (graph/passes/equalise_channels.cc).
std::string name_before_equalising(const std::string& name) {
  constexpr std::string_view kSuffix = ".equalised";
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
}

class Comparison {
 public:
  Comparison(const Graph& graph, const Values& values)
      : graph_(graph), values_(values), errors_(graph.tensors.size(), 0) {}

  // After the compiled network's node has made `value`.
  void add(const Node& node, TensorId id, const Tensor& value) {
    double operands = 0;
    for (const TensorId operand : node.inputs) operands = std::max(operands, errors_[operand]);
    if (!graph::looks_at(graph_, node)) {
      errors_[id] = operands;
      return;
    }
    const graph::TensorInfo& info = graph_.tensor(id);
    LayerError layer{.layer = node.name,
                     .kind = graph::node_kind_name(node.kind()),
                     .tensor = name_before_equalising(info.name),
                     .format = std::string(format_name(info.format)),
                     .dims = info.dims,
                     .error = error_between(values_[id], value),
                     .own = own_error(node, values_[id]),
                     .operands = operands};
    if (const std::string product = product_format(node); !product.empty()) {
      layer.format += ", " + product;
    }
    errors_[id] = layer.error;
    layers_.push_back(std::move(layer));
  }

  std::vector<LayerError> take() { return std::move(layers_); }

 private:
  static double error_between(const Tensor& expected, const Tensor& found) {
    OutputSums sums;
    sums.add(expected, found);
    return sums.relative_error();
  }

  // The node alone on float32's operands.
  double own_error(const Node& node, const Tensor& expected) const {
    graph::NodeGraph alone = graph::node_graph(graph_, node);
    std::vector<Tensor> operands;
    for (const TensorId id : alone.inputs) {
      operands.push_back(in_format(values_[id], graph_.tensor(id).format));
    }
    const auto executor = host::make_host_executor(
        std::make_shared<const Graph>(std::move(alone.graph)), {.threads = 1});
    if (!executor.ok()) return 0;
    const auto made = (*executor)->run(operands);
    return made.ok() ? error_between(expected, made->front()) : 0;
  }

  const Graph& graph_;
  const Values& values_;
  Table<TensorId, double> errors_;
  std::vector<LayerError> layers_;
};

}  // namespace

const MatrixFormat* matrix_of(const Node& node) {
  if (node.kind() == graph::NodeKind::kConv) return &node.as<graph::ConvAttributes>().matrix;
  if (node.kind() == graph::NodeKind::kMatMul) return &node.as<graph::MatMulAttributes>().matrix;
  return nullptr;
}
MatrixFormat* matrix_of(Node& node) {
  return const_cast<MatrixFormat*>(matrix_of(static_cast<const Node&>(node)));
}

std::string product_format(const Node& node) {
  const MatrixFormat* const matrix = matrix_of(node);
  if (matrix == nullptr || matrix->kind != MatrixKind::kBlockFloat) return "";
  if (node.kind() == graph::NodeKind::kConv && node.as<graph::ConvAttributes>().channel_wise) {
    return "";
  }
  if (matrix->mantissa_bits_moving == matrix->mantissa_bits_stationary) {
    return fmt::format("bfp:{}", matrix->mantissa_bits_moving);
  }
  return fmt::format("bfp:{}:{}", matrix->mantissa_bits_moving, matrix->mantissa_bits_stationary);
}

Result<std::vector<LayerError>> layer_errors(const Trials& trials,
                                             std::shared_ptr<const Graph> graph,
                                             const std::function<void(double)>& progress) {
  TESSERA_TRY(const Values values, float32_values(*graph, trials.cases()));
  TESSERA_TRY(const auto executor,
              host::make_host_executor(graph, {.threads = trials.cases().threads}));
  Comparison comparison(*graph, values);
  std::size_t done = 0;
  TESSERA_TRY(const auto outputs,
              executor->run(trials.cases().inputs.front(), [&](const Node& node, TensorId id,
                                                               const Tensor& value) {
                comparison.add(node, id, value);
                if (!progress) return;
                progress(static_cast<double>(++done) / static_cast<double>(graph->nodes.size()));
              }));
  (void)outputs;
  return comparison.take();
}

}  // namespace tessera::accuracy
