// Quantise and dequantise steps (Elementwise identities with an affine end; Q and D below) move
// into the nodes beside them, so that integer models stay integer.
//
//   f32 ─► convert ─► Q                      ─► Q that reads f32          (no rounding in between)
//   D ─► convert ─► f32                      ─► D that gives f32
//   D ─► Move or maximum Pool of one input   ─► Move or Pool of the integers ─► D
//   D, D, ... ─► Move (Concat) ─► Q          ─► Move of integers; inputs of another scale are
//                                               requantised first (D then Q in one Elementwise)
//   Move of one input ─► Q                   ─► Q ─► Move of the integers
//   D ─► Q, equal scale, zero point, format  ─► nothing
//   D ─► Q otherwise                         ─► one requantising Elementwise
//   D ─► average Pool, Reduce ─► Q           ─► the node with affine ends
//   Elementwise ─► Q                         ─► Elementwise with an affine output
//   D ─► such an Elementwise                 ─► Elementwise with an affine input
//
// Between affine ends values are binary32, as in the ONNX definition, not in the vector format.
// Before: activations are fused. After: any draft.
#include <algorithm>
#include <optional>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// What the rewrites of one round share.
struct Round {
  explicit Round(Graph& graph) : editor(graph), links(graph) {}
  Editor editor;
  LiveLinks links;
};
using Rewrite = bool (*)(Graph& graph, Round& round, std::size_t i);

bool is_identity(const Node& node) {
  if (node.kind() != NodeKind::kElementwise || node.inputs.size() != 1) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.binary && attributes.activation == Activation{};
}

bool is_dequantise(const Node& node) {
  if (!is_identity(node)) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.inputs[0].enabled && !attributes.output.enabled;
}

bool is_quantise(const Node& node) {
  if (!is_identity(node)) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.inputs[0].enabled && attributes.output.enabled;
}

bool is_convert(const Node& node) {
  if (!is_identity(node)) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return !attributes.inputs[0].enabled && !attributes.output.enabled;
}

// The node that produces `id` if `test` holds for it, else null.
Node* producer_if(Graph& graph, const Links& links, TensorId id, bool (*test)(const Node&)) {
  const std::int32_t index = links.producer(id);
  if (index < 0) return nullptr;
  Node& node = graph.nodes[index];
  return test(node) ? &node : nullptr;
}

const Affine& input_affine(const Node& node) { return node.as<ElementwiseAttributes>().inputs[0]; }
const Affine& output_affine(const Node& node) { return node.as<ElementwiseAttributes>().output; }

// `node` takes over the outputs of the last node of a chain, which dies.
void absorb(Node& node, Node& last) {
  node.outputs = last.outputs;
  add_origins(node.origins, last.origins);
  last.inputs.clear();
  last.outputs.clear();
  last.attributes = MoveAttributes{};
}

// convert ─► Q and D ─► convert.
bool skip_conversion(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& node = graph.nodes[i];
  if (is_quantise(node)) {
    Node* convert = producer_if(graph, links, node.inputs[0], is_convert);
    if (convert == nullptr || graph.tensor(convert->inputs[0]).format != Format::kF32) return false;
    node.inputs[0] = convert->inputs[0];
    return true;
  }
  if (!is_convert(node) || graph.tensor(node.outputs[0]).format != Format::kF32) return false;
  Node* dequantise = producer_if(graph, links, node.inputs[0], is_dequantise);
  if (dequantise == nullptr) return false;
  node.attributes = dequantise->attributes;
  add_origins(node.origins, dequantise->origins);
  node.inputs = dequantise->inputs;
  return true;
}

// D ─► Move or maximum Pool  ─►  Move or Pool ─► D. The node keeps its tensor for the integers, the
// dequantised value gets a new one.
bool sink_dequantise(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  const Node& node = graph.nodes[i];
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const bool moves = node.kind() == NodeKind::kMove && !node.as<MoveAttributes>().has_fill;
  const bool pools = node.kind() == NodeKind::kPool &&
                     node.as<PoolAttributes>().function == PoolFunction::kMaximum;
  if (!moves && !pools) return false;
  const Node* dequantise = producer_if(graph, links, node.inputs[0], is_dequantise);
  if (dequantise == nullptr) return false;
  const TensorInfo integers = graph.tensor(dequantise->inputs[0]);
  if (format_bytes(integers.format) > 2) return false;  // int32 sums stay where they are
  const TensorInfo reals = graph.tensor(node.outputs[0]);
  const ElementwiseAttributes attributes = dequantise->as<ElementwiseAttributes>();
  const std::vector<std::string> origins = dequantise->origins;
  const TensorId source = dequantise->inputs[0];
  const TensorId old_output = node.outputs[0];
  const TensorId moved = round.editor.add_tensor(reals.name + ".q", integers.format, reals.dims);
  graph.nodes[i].inputs[0] = source;
  graph.nodes[i].outputs[0] = moved;
  round.editor.add_node(graph.nodes[i].name + ".dequantise", origins, {moved}, {old_output},
                        attributes);
  return true;
}

// The bits that a zero fill has among quantised values.
std::optional<std::uint64_t> quantised_fill(const MoveAttributes& move, const Affine& affine,
                                            Format format) {
  if (!move.has_fill) return 0;
  if (move.fill != 0) return std::nullopt;
  const std::uint64_t mask = format_bytes(format) == 1 ? 0xFF : 0xFFFF;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(affine.zero_point)) & mask;
}

// D, D, ... ─► Move ─► Q.
bool quantise_move(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& quantise = graph.nodes[i];
  if (!is_quantise(quantise) || !links.has_single_use(quantise.inputs[0])) return false;
  Node* move = producer_if(graph, links, quantise.inputs[0],
                           [](const Node& node) { return node.kind() == NodeKind::kMove; });
  if (move == nullptr) return false;
  const Affine affine = output_affine(quantise);
  const Format format = graph.tensor(quantise.outputs[0]).format;
  for (const TensorId id : move->inputs) {
    if (producer_if(graph, links, id, is_dequantise) == nullptr) return false;
  }
  const auto fill = quantised_fill(move->as<MoveAttributes>(), affine, format);
  if (!fill) return false;
  const auto move_index = static_cast<std::size_t>(move - graph.nodes.data());
  absorb(*move, quantise);
  move->as<MoveAttributes>().fill = *fill;
  for (std::size_t k = 0; k < graph.nodes[move_index].inputs.size(); ++k) {
    const TensorId id = graph.nodes[move_index].inputs[k];
    const Node dequantise = *producer_if(graph, links, id, is_dequantise);
    const TensorId integers = dequantise.inputs[0];
    TensorId source = integers;
    if (input_affine(dequantise) != affine || graph.tensor(integers).format != format) {
      // A copy: adding a tensor may move them all.
      // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
      const TensorInfo info = graph.tensor(integers);
      source = round.editor.add_tensor(info.name + ".requantised", format, info.dims);
      ElementwiseAttributes attributes = dequantise.as<ElementwiseAttributes>();
      attributes.output = affine;
      round.editor.add_node(graph.nodes[move_index].name + ".requantise", dequantise.origins,
                            {integers}, {source}, attributes);
    }
    graph.nodes[move_index].inputs[k] = source;
  }
  return true;
}

// Move of one input ─► Q  becomes  Q ─► Move of the integers.
bool hoist_quantise(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  const Node& quantise = graph.nodes[i];
  if (!is_quantise(quantise) || !links.has_single_use(quantise.inputs[0])) return false;
  Node* move = producer_if(graph, links, quantise.inputs[0], [](const Node& node) {
    return node.kind() == NodeKind::kMove && node.inputs.size() == 1 &&
           !node.as<MoveAttributes>().has_fill;
  });
  if (move == nullptr) return false;
  const std::int64_t read = element_count(graph.tensor(move->inputs[0]).dims);
  if (read > element_count(graph.tensor(quantise.outputs[0]).dims)) return false;
  const auto move_index = static_cast<std::size_t>(move - graph.nodes.data());
  const TensorInfo source = graph.tensor(move->inputs[0]);
  const Format format = graph.tensor(quantise.outputs[0]).format;
  const TensorId integers = round.editor.add_tensor(source.name + ".q", format, source.dims);
  graph.nodes[i].inputs[0] = graph.nodes[move_index].inputs[0];
  std::swap(graph.nodes[i].outputs, graph.nodes[move_index].outputs);
  graph.nodes[i].outputs[0] = integers;
  graph.nodes[move_index].inputs[0] = integers;
  return true;
}

// The producer of `integers` writes `output`, a graph output, instead; false if it cannot.
bool redirect_producer(Graph& graph, Round& round, TensorId integers, TensorId output) {
  const LiveLinks& links = round.links;
  const std::int32_t producer = links.producer(integers);
  if (producer < 0 || links.is_output(integers)) return false;
  std::vector<TensorId>& outputs = graph.nodes[producer].outputs;
  std::replace(outputs.begin(), outputs.end(), TensorId{integers}, TensorId{output});
  round.links.replace_uses(graph, integers, output);
  return true;
}

// D ─► Q.
bool join_pair(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& quantise = graph.nodes[i];
  if (!is_quantise(quantise)) return false;
  Node* dequantise = producer_if(graph, links, quantise.inputs[0], is_dequantise);
  if (dequantise == nullptr) return false;
  const TensorId integers = dequantise->inputs[0];
  const bool same = input_affine(*dequantise) == output_affine(quantise) &&
                    graph.tensor(integers).format == graph.tensor(quantise.outputs[0]).format;
  const TensorId output = quantise.outputs[0];
  const bool is_output = links.is_output(output);
  if (same && (!is_output || redirect_producer(graph, round, integers, output))) {
    if (!is_output) round.links.replace_uses(graph, output, integers);
    quantise.inputs.clear();
    quantise.outputs.clear();
    quantise.attributes = MoveAttributes{};
    return true;
  }
  quantise.as<ElementwiseAttributes>().inputs[0] = input_affine(*dequantise);
  quantise.inputs[0] = integers;
  add_origins(quantise.origins, dequantise->origins);
  return true;
}

// D ─► average Pool, Reduce ─► Q.
bool quantise_planar(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& quantise = graph.nodes[i];
  if (!is_quantise(quantise) || !links.has_single_use(quantise.inputs[0])) return false;
  Node* planar = producer_if(graph, links, quantise.inputs[0], [](const Node& node) {
    if (node.kind() == NodeKind::kReduce) return !node.as<ReduceAttributes>().output.enabled;
    return node.kind() == NodeKind::kPool &&
           node.as<PoolAttributes>().function == PoolFunction::kAverage &&
           !node.as<PoolAttributes>().output.enabled;
  });
  if (planar == nullptr) return false;
  const Node* dequantise = producer_if(graph, links, planar->inputs[0], is_dequantise);
  if (dequantise == nullptr) return false;
  const Affine input = input_affine(*dequantise);
  const Affine output = output_affine(quantise);
  planar->inputs = dequantise->inputs;
  add_origins(planar->origins, dequantise->origins);
  if (planar->kind() == NodeKind::kPool) {
    planar->as<PoolAttributes>().input = input;
    planar->as<PoolAttributes>().output = output;
  } else {
    planar->as<ReduceAttributes>().input = input;
    planar->as<ReduceAttributes>().output = output;
  }
  absorb(*planar, quantise);
  return true;
}

// Elementwise ─► Q.
bool quantise_elementwise(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& quantise = graph.nodes[i];
  if (!is_quantise(quantise) || !links.has_single_use(quantise.inputs[0])) return false;
  Node* producer = producer_if(graph, links, quantise.inputs[0], [](const Node& node) {
    return node.kind() == NodeKind::kElementwise && !is_identity(node) &&
           !node.as<ElementwiseAttributes>().output.enabled;
  });
  if (producer == nullptr) return false;
  producer->as<ElementwiseAttributes>().output = output_affine(quantise);
  absorb(*producer, quantise);
  return true;
}

// D ─► Elementwise with an affine output.
bool dequantise_operand(Graph& graph, Round& round, std::size_t i) {
  const Links& links = round.links;
  Node& node = graph.nodes[i];
  if (node.kind() != NodeKind::kElementwise) return false;
  if (!node.as<ElementwiseAttributes>().output.enabled) return false;
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.as<ElementwiseAttributes>().inputs[k].enabled) continue;
    const Node* dequantise = producer_if(graph, links, node.inputs[k], is_dequantise);
    if (dequantise == nullptr) continue;
    node.as<ElementwiseAttributes>().inputs[k] = input_affine(*dequantise);
    node.inputs[k] = dequantise->inputs[0];
    add_origins(node.origins, dequantise->origins);
    return true;
  }
  return false;
}

constexpr Rewrite kRewrites[] = {
    skip_conversion,      join_pair,          quantise_move,   quantise_planar,
    quantise_elementwise, dequantise_operand, sink_dequantise, hoist_quantise};

// What a rewrite at node `i` may change, besides nodes that it adds: the node, those that make what it
// reads, and those that make what these read. (What replaces uses tells the links itself.)
std::vector<NodeIndex> nodes_above(const Graph& graph, const Links& links, std::size_t i) {
  std::vector<NodeIndex> nodes = {static_cast<NodeIndex>(i)};
  std::size_t first = 0;
  for (int depth = 0; depth < 2; ++depth) {
    const std::size_t end = nodes.size();
    for (; first < end; ++first) {
      for (const TensorId id : graph.nodes[nodes[first]].inputs) {
        const NodeIndex producer = links.producer(id);
        if (producer >= 0) nodes.push_back(producer);
      }
    }
  }
  return nodes;
}

// The first rewrite that applies at node `i`; false if none does.
bool rewrite_node(Graph& graph, Round& round, std::size_t i) {
  const NodeKind kind = graph.nodes[i].kind();
  if (kind != NodeKind::kElementwise && kind != NodeKind::kMove && kind != NodeKind::kPool) {
    return false;
  }
  const std::vector<NodeIndex> above = nodes_above(graph, round.links, i);
  for (const Rewrite rewrite : kRewrites) {
    if (!rewrite(graph, round, i)) continue;
    round.links.add_new(graph);
    for (const NodeIndex node : above) round.links.update(graph, node);
    return true;
  }
  return false;
}

}  // namespace

void fuse_quantisation(Graph& graph) {
  for (bool changed = true; changed;) {
    changed = false;
    Round round(graph);
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      changed = rewrite_node(graph, round, i) || changed;
    }
    tidy(graph);
  }
}

}  // namespace tessera::graph
