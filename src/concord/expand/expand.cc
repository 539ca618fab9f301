#include "concord/expand/expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "arith/rounding.h"
#include "base/check.h"
#include "base/utf8.h"
#include "concord/expand/expansion.h"
#include "concord/expand/node_expansions.h"

namespace tessera::concord {

using graph::Node;
using graph::NodeKind;
using graph::TensorId;

namespace {

// Layers that an error lists.
constexpr std::size_t kNamesMax = 40;

// A carried tensor in its own format, for outputs and host steps.
ValueId to_own_format(Steps& steps, const Carried& carried, Format format) {
  ValueId value = carried.value;
  if (format_is_float(format) && format != Format::kF64 && carried.traits.may_be_nan &&
      !carried.raw) {
    const ValueId nan = steps.scalar(steps.format(value), std::numeric_limits<double>::quiet_NaN());
    value = steps.where(steps.is_nan(value), nan, value);  // the one canonical NaN
  }
  if (format == Format::kF16) value = steps.cast(value, Format::kF32);
  return steps.cast(value, format);
}

Traits traits_of_input(Format format) {
  return format_is_float(format) ? Traits{} : Traits::finite();
}

Carried from_own_format(Steps& steps, ValueId value, Format format) {
  return {steps.cast(value, carrier(format)), traits_of_input(format), false};
}

// Sums and products of i64 numbers, which only the host computes, are operators like others.
std::optional<Operator> plain_operator(Expansion& at, const Node& node) {
  const model::Node& host = node.as<graph::HostStepAttributes>().node;
  const bool wide = node.inputs.size() == 2 && node.outputs.size() == 1 &&
                    std::all_of(node.inputs.begin(), node.inputs.end(),
                                [&](TensorId id) { return at.info(id).format == Format::kI64; });
  if (!wide || !host.domain.empty() || !host.attributes.empty()) return std::nullopt;
  if (host.op_type == "Add") return Operator::kAdd;
  if (host.op_type == "Mul") return Operator::kMultiply;
  return std::nullopt;
}

// Elements of constants at places that only a run knows. A place below 0 counts from the end; one
// that is out of range is an error wherever the software runs.
std::optional<Carried> gathered(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  const model::Node& host = node.as<graph::HostStepAttributes>().node;
  if (host.op_type != "Gather" || !host.domain.empty() || node.inputs.size() != 2) {
    return std::nullopt;
  }
  const Format places = at.info(node.inputs[1]).format;
  const Carried& data = at.operand(node.inputs[0]);
  if (places != Format::kI64 && places != Format::kI32) return std::nullopt;
  const Shape dims = steps.dims(data.value);
  const auto rank = static_cast<std::int64_t>(dims.size());
  std::int64_t axis = 0;
  if (const auto found = host.attributes.find("axis"); found != host.attributes.end()) {
    const auto* const given = std::get_if<std::int64_t>(&found->second);
    if (given == nullptr) return std::nullopt;
    axis = *given;
  }
  if (axis < 0) axis += rank;
  // Of a foreign program; what cannot be is an error where the host step is looked at as a whole.
  if (axis < 0 || axis >= rank) return std::nullopt;
  const auto extent = static_cast<double>(dims[static_cast<std::size_t>(axis)]);
  const ValueId place = at.wide(node.inputs[1]);
  const ValueId from_front = steps.where(steps.less(place, 0.0), steps.add(place, extent), place);
  // One that is still below 0 must not count from the end once more, nor may one be too large to
  // cast.
  const ValueId no_place = steps.f64(extent);
  const ValueId checked = steps.where(steps.less(from_front, 0.0), no_place,
                                      steps.binary(Operator::kMinimum, from_front, no_place));
  const ValueId found = steps.gather(data.value, steps.cast(checked, Format::kI64), axis);
  return Carried{found, data.traits, data.raw};
}

Status expand_host_step(Expansion& at, const Node& node) {
  Steps& steps = at.steps();
  if (const auto found = gathered(at, node)) {
    at.set(node.outputs[0], *found);
    return {};
  }
  const auto& step = node.as<graph::HostStepAttributes>();
  if (const auto op = plain_operator(at, node)) {
    const ValueId result =
        steps.binary(*op, at.operand(node.inputs[0]).value, at.operand(node.inputs[1]).value);
    at.set(node.outputs[0], {result, Traits::finite(), false});
    return {};
  }
  std::vector<ValueId> inputs;
  for (const TensorId id : node.inputs) {
    inputs.push_back(to_own_format(steps, at.operand(id), at.info(id).format));
  }
  std::vector<std::pair<Format, Shape>> outputs;
  for (const TensorId id : node.outputs) outputs.push_back({at.info(id).format, at.info(id).dims});
  auto host = std::make_shared<const model::Node>(step.node);  // shared by the operation's copies
  const std::vector<ValueId> results =
      steps.host_node(std::move(host), step.opset, inputs, outputs);
  for (std::size_t i = 0; i < results.size(); ++i) {
    at.set(node.outputs[i], from_own_format(steps, results[i], outputs[i].first));
  }
  return {};
}

Result<Carried> expand_node(Expansion& at, const Node& node) {
  switch (node.kind()) {
    case NodeKind::kConv:
      return node.as<graph::ConvAttributes>().matrix.kind == MatrixKind::kInteger
                 ? expand_integer_conv(at, node)
                 : expand_conv(at, node);
    case NodeKind::kMatMul:
      return node.as<graph::MatMulAttributes>().matrix.kind == MatrixKind::kInteger
                 ? expand_integer_matmul(at, node)
                 : expand_matmul(at, node);
    case NodeKind::kPool:
      return expand_pool(at, node);
    case NodeKind::kElementwise:
      return expand_elementwise(at, node);
    case NodeKind::kReduce:
      return expand_reduce(at, node);
    case NodeKind::kMove:
      return expand_move(at, node);
    case NodeKind::kHostStep:
      break;
  }
  TESSERA_CHECK(false, "node '{}' is a host step", node.name);
}

// One bit shorter than it should be.
ValueId plant_fault(Steps& steps, ValueId value) {
  const Format format = steps.format(value);
  const ValueId shift = steps.mul(steps.abs(value), format == Format::kF64 ? 0x1p43 : 0x1p14);
  return steps.sub(steps.add(value, shift), shift);
}

// No language or library that software is written for passes bf16 tensors in and out.
Status check_bf16(const graph::Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kHostStep) return {};
  const auto check = [&](TensorId id) -> Status {
    if (graph.tensor(id).format != Format::kBf16) return {};
    return refuse(node, fmt::format("its tensor '{}' is bf16, which a host step has no form for; "
                                    "choose f16 or f32 vectors",
                                    graph.tensor(id).name));
  };
  for (const TensorId id : node.inputs) TESSERA_RETURN_IF_ERROR(check(id));
  for (const TensorId id : node.outputs) TESSERA_RETURN_IF_ERROR(check(id));
  return {};
}

Status check_ports(const graph::Graph& graph) {
  for (const auto* ids : {&graph.inputs, &graph.outputs}) {
    for (const TensorId id : *ids) {
      if (graph.tensor(id).format != Format::kBf16) continue;
      return Error{ErrorCode::kUnsupported,
                   fmt::format("tensor '{}': derived software has no bf16 inputs and outputs; give "
                               "the model f32 ones (bf16 vectors inside are derived)",
                               graph.tensor(id).name)};
    }
  }
  return {};
}

Status expand_layer(Expansion& at, const Node& node, const ExpandOptions& options) {
  Steps& steps = at.steps();
  Software& software = steps.software();
  TESSERA_RETURN_IF_ERROR(check_bf16(at.graph(), node));
  const auto layer = static_cast<std::int32_t>(software.layers.size());
  const graph::TensorInfo& output = at.info(node.outputs[0]);
  software.layers.push_back(
      {node.name, graph::node_kind_name(node.kind()), {}, output.name, output.format});
  steps.begin_layer(layer);
  if (node.kind() == NodeKind::kHostStep) {
    TESSERA_RETURN_IF_ERROR(expand_host_step(at, node));
  } else {
    TESSERA_TRY(Carried result, expand_node(at, node));
    if (node.name == options.fault_node) result.value = plant_fault(steps, result.value);
    TESSERA_CHECK(steps.dims(result.value) == output.dims, "node '{}' has another shape",
                  node.name);
    TESSERA_CHECK(steps.format(result.value) == carrier(output.format),
                  "node '{}' is carried in {}", node.name, format_name(steps.format(result.value)));
    at.set(node.outputs[0], result);
  }
  for (auto i = static_cast<std::size_t>(layer); i < software.layers.size(); ++i) {
    software.layers[i].result = at.operand(node.outputs[0]).value;
  }
  return {};
}

// The shortest stem such that no tensor of the graph is called that and a number.
std::string free_stem(const graph::Graph& graph) {
  std::string stem = "t";
  const auto is_taken = [&](const graph::TensorInfo& tensor) {
    return tensor.name.size() > stem.size() && tensor.name.starts_with(stem) &&
           tensor.name.find_first_not_of("0123456789", stem.size()) == std::string::npos;
  };
  while (std::any_of(graph.tensors.begin(), graph.tensors.end(), is_taken)) stem += "_";
  return stem;
}

void finish_outputs(Expansion& at, Software& software) {
  Steps& steps = at.steps();
  software.layers.push_back({"outputs", "Output", {}, "", Format::kF32});
  steps.begin_layer(static_cast<std::int32_t>(software.layers.size()) - 1);
  std::set<std::int32_t> taken;
  for (const Port& port : software.inputs) taken.insert(port.value.value);
  for (const graph::TensorId id : at.graph().outputs) {
    const graph::TensorInfo& info = at.info(id);
    ValueId value = to_own_format(steps, at.operand(id), info.format);
    const bool fresh =
        software.value(value).constant == nullptr && taken.insert(value.value).second;
    if (!fresh) {  // a port of its own: the same elements once more
      Shape flat = {element_count(info.dims)};
      if (flat == info.dims) flat.push_back(1);
      value = steps.reshape(steps.reshape(value, flat), info.dims);
      taken.insert(value.value);
    }
    const std::string name = std::any_of(software.inputs.begin(), software.inputs.end(),
                                         [&](const Port& port) { return port.name == info.name; })
                                 ? info.name + "_output"
                                 : info.name;
    software.values[value].name = name;
    software.outputs.push_back({value, name});
  }
  software.layers.back().result = software.outputs.back().value;
}

// Drops what is not read.
void prune(Software& software) {
  std::set<ValueId> needed;
  for (const Port& port : software.outputs) needed.insert(port.value);
  for (const Layer& layer : software.layers) needed.insert(layer.result);
  std::vector<Operation> kept;
  for (auto operation = software.operations.rbegin(); operation != software.operations.rend();
       ++operation) {
    const bool read = std::any_of(operation->outputs.begin(), operation->outputs.end(),
                                  [&](ValueId id) { return needed.count(id) > 0; });
    if (!read) continue;
    needed.insert(operation->inputs.begin(), operation->inputs.end());
    kept.push_back(std::move(*operation));
  }
  std::reverse(kept.begin(), kept.end());
  software.operations = std::move(kept);
}

bool names_are_utf8(const graph::Graph& graph) {
  const auto is_utf8 = [](const std::string& name) { return as_utf8(name) == name; };
  return is_utf8(graph.name) &&
         std::ranges::all_of(graph.tensors, is_utf8, &graph::TensorInfo::name) &&
         std::ranges::all_of(graph.nodes, is_utf8, &Node::name);
}

// What software is written as is UTF-8; firmware and containers may have any names. Two names may
// become one: all that change have their place behind them.
graph::Graph with_utf8_names(graph::Graph graph) {
  const auto change = [](std::string& name, std::size_t place) {
    const std::string changed = as_utf8(name);
    if (changed != name) name = fmt::format("{}_{}", changed, place);
  };
  graph.name = as_utf8(graph.name);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) change(graph.tensors[i].name, i);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) change(graph.nodes[i].name, i);
  return graph;
}

}  // namespace

Result<Software> expand(const graph::Graph& graph, const ExpandOptions& options) {
  if (!names_are_utf8(graph)) return expand(with_utf8_names(graph), options);
  const bool fault_found =
      options.fault_node.empty() ||
      std::any_of(graph.nodes.begin(), graph.nodes.end(),
                  [&](const Node& node) { return node.name == options.fault_node; });
  if (!fault_found) {
    std::string names;
    for (std::size_t i = 0; i < std::min(graph.nodes.size(), kNamesMax); ++i) {
      names += fmt::format("{}'{}'", i == 0 ? "" : ", ", graph.nodes[i].name);
    }
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("there is no layer '{}' to plant a fault in; there are {}{}",
                    options.fault_node, names, graph.nodes.size() > kNamesMax ? ", ..." : "")};
  }
  if (graph.outputs.empty()) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the program has no outputs, so there is nothing to derive; let it write an output "
        "queue or DRAM output"};
  }
  TESSERA_RETURN_IF_ERROR(check_ports(graph));
  Software software;
  software.name = graph.name;
  Steps steps(software, free_stem(graph));
  Expansion at(graph, steps, options.trainable);
  software.layers.push_back({"inputs", "Input", {}, "", Format::kF32});
  steps.begin_layer(0);
  for (const TensorId id : graph.inputs) {
    const graph::TensorInfo& info = graph.tensor(id);
    const ValueId value = steps.input(info.name, info.format, info.dims);
    at.set(id, {steps.cast(value, carrier(info.format)), traits_of_input(info.format), true});
    software.layers[0].result = value;
  }
  for (const Node& node : graph.nodes) {
    TESSERA_RETURN_IF_ERROR(expand_layer(at, node, options));
  }
  finish_outputs(at, software);
  prune(software);
  return software;
}

}  // namespace tessera::concord
