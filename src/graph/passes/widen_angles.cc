// The angles of positions stay in binary32: a rotary embedding takes sine and cosine of a position times a
// frequency, and f16 keeps an angle of 100 to a thirtieth of a radian, positions only up to 2,048.
//
//   position (i64) ─► convert ─┐                    position (i64) ─► convert ─► f32 ─┐
//        frequencies (K = 1) ──┴─► product ─► moves ─► sin, cos       frequencies ────┴─► * ─► f32 ─► moves ─► sin, cos
//
// Positions are integers, or floats that the network is given (the time of a diffusion step): f16 has 981 and a half at best.
// Between them and sine or cosine may stand moves, element-wise sums and products, and matrix
// products over one element, which become element-wise. What else an angle may come of are constants.
// Where a part of the way cannot be f32, all of it stays as it is.
// Before: activations are not yet fused. After: any draft.
#include <algorithm>

#include "graph/editor.h"
#include "graph/float_nodes.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_wave(const Node& node) {
  if (!is_plain_unary(node)) return false;
  const UnaryFunction function = node.as<ElementwiseAttributes>().activation.function;
  return function == UnaryFunction::kSin || function == UnaryFunction::kCos;
}

bool is_plain_binary(const Node& node) {
  if (node.kind() != NodeKind::kElementwise) return false;
  const auto& attributes = node.as<ElementwiseAttributes>();
  return attributes.binary && attributes.activation == Activation{} &&
         !attributes.inputs[0].enabled && !attributes.inputs[1].enabled &&
         !attributes.output.enabled;
}

// A product over one element: every element of the result is one product.
bool is_outer_product(const Graph& graph, const Node& node) {
  return node.kind() == NodeKind::kMatMul && is_float_product(node) && node.inputs.size() == 2 &&
         node.as<MatMulAttributes>().post == PostProcess{} &&
         graph.tensor(node.inputs[0]).dims.back() == 1;
}

// What leads from positions to one sine or cosine.
struct AnglePath {
  std::vector<TensorId> tensors;  // that become f32
  bool has_positions = false;
};

// Adds `id` and what it is made of; false if that cannot be f32.
bool collect(const Graph& graph, const Links& links, TensorId id, AnglePath& path) {
  const TensorInfo& tensor = graph.tensor(id);
  if (tensor.constant != nullptr) return true;
  if (std::ranges::find(path.tensors, id) != path.tensors.end()) return true;
  const NodeIndex index = links.producer(id);
  if (index < 0 || links.is_output(id)) return false;
  if (tensor.format != graph.vector_format && tensor.format != Format::kF32) return false;
  path.tensors.push_back(id);
  const Node& node = graph.nodes[index];
  if (node.kind() == NodeKind::kElementwise && !node.as<ElementwiseAttributes>().binary) {
    const auto& attributes = node.as<ElementwiseAttributes>();
    const bool converts = attributes.activation == Activation{} && !attributes.inputs[0].enabled &&
                          !attributes.output.enabled && !attributes.gain_bias;
    const TensorInfo& source = graph.tensor(node.inputs[0]);
    const bool given = source.format == Format::kF32 && links.producer(node.inputs[0]) < 0;
    if (!converts || !(given || format_is_integer(source.format))) return false;
    path.has_positions = true;
    return true;
  }
  const bool moves = node.kind() == NodeKind::kMove &&
                     (!node.as<MoveAttributes>().has_fill || node.as<MoveAttributes>().fill == 0);
  if (!moves && !is_plain_binary(node) && !is_outer_product(graph, node)) return false;
  return std::ranges::all_of(node.inputs,
                             [&](TensorId input) { return collect(graph, links, input, path); });
}

// Whether all that reads the path takes f32: element-wise nodes do, and what makes the rest of it.
bool readers_take_f32(const Graph& graph, const Links& links, const AnglePath& path) {
  return std::ranges::all_of(path.tensors, [&](TensorId id) {
    return std::ranges::all_of(links.consumers(id), [&](NodeIndex reader) {
      const Node& node = graph.nodes[reader];
      return node.kind() == NodeKind::kElementwise ||
             std::ranges::find(path.tensors, node.outputs[0]) != path.tensors.end();
    });
  });
}

}  // namespace

void widen_angles(Graph& graph) {
  if (graph.vector_format == Format::kF32) return;
  const Links links(graph);
  for (const Node& wave : graph.nodes) {
    if (!is_wave(wave)) continue;
    AnglePath path;
    if (!collect(graph, links, wave.inputs[0], path) || !path.has_positions) continue;
    if (!readers_take_f32(graph, links, path)) continue;
    for (const TensorId id : path.tensors) {
      graph.tensor(id).format = Format::kF32;
      Node& node = graph.nodes[links.producer(id)];
      if (node.kind() != NodeKind::kMatMul) continue;
      ElementwiseAttributes product;
      product.binary = true;
      product.function = BinaryFunction::kMultiply;
      node.attributes = product;
    }
  }
}

}  // namespace tessera::graph
