// Moves that do nothing go, and a Move of a Move becomes one Move.
//
//   Move (dense, same shape), Elementwise identity (same format)   ─► its input
//   a ─► Move (one box, no fill) ─► Move box                       ─► Move box that reads a
//   a ─► Move (boxes that go on behind each other on both sides)    ─► Move (one box)
//   parts ─► Move (boxes, fill) ─► Move (permutes all of it)       ─► Move (boxes at other places)
//
// The last one only where the boxes' runs get longer by it, so that a concatenation along the last
// axis which is transposed afterwards becomes one of whole planes.
//
// So transpositions that cancel disappear, reshapes of reshapes become one, and a slice of a
// transposition reads the original. A composition that needs more than one box is left alone.
// Graph outputs keep the node that produces them.
// Before and after: any draft or final graph.
#include <algorithm>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool does_nothing(const Graph& graph, const Node& node) {
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return false;
  const TensorInfo& input = graph.tensor(node.inputs[0]);
  const TensorInfo& output = graph.tensor(node.outputs[0]);
  if (input.dims != output.dims || input.format != output.format) return false;
  if (node.kind() == NodeKind::kElementwise) {
    const auto& attributes = node.as<ElementwiseAttributes>();
    return attributes.activation == Activation{} && !attributes.inputs[0].enabled &&
           !attributes.output.enabled;
  }
  if (node.kind() != NodeKind::kMove) return false;
  const auto& move = node.as<MoveAttributes>();
  return move.copies.size() == 1 && is_dense_copy(move.copies[0], element_count(output.dims));
}

// Input `i` of a Move reads another Move that can be skipped.
bool skip_producer(Graph& graph, const Links& links, Node& node, std::size_t i) {
  const std::int32_t index = links.producer(node.inputs[i]);
  if (index < 0) return false;
  const Node& first = graph.nodes[index];
  if (first.kind() != NodeKind::kMove) return false;
  const auto& first_move = first.as<MoveAttributes>();
  if (first_move.has_fill || first_move.copies.size() != 1 || first.inputs.size() != 1) {
    return false;
  }
  // A float constant of a draft has no settled format yet.
  if (graph.tensor(first.inputs[0]).format != graph.tensor(node.inputs[i]).format) return false;
  const std::int64_t count = element_count(graph.tensor(node.inputs[i]).dims);
  auto& move = node.as<MoveAttributes>();
  std::vector<CopyBox> copies = move.copies;
  for (CopyBox& box : copies) {
    if (box.input != static_cast<std::int32_t>(i)) continue;
    auto one = composed(first_move.copies[0], count, box);
    if (!one) return false;
    one->input = box.input;
    box = std::move(*one);
  }
  move.copies = std::move(copies);
  node.inputs[i] = first.inputs[0];
  add_origins(node.origins, first.origins);
  return true;
}

// Neighbouring parts of a tensor that are put side by side again, so that what makes the tensor can store it there.
void join_neighbours(Node& node) {
  auto& move = node.as<MoveAttributes>();
  if (move.copies.size() < 2) return;
  node.inputs = inputs_read(node.inputs, move.copies);
  std::vector<CopyBox> copies;
  for (CopyBox& box : move.copies) {
    auto both = copies.empty() ? std::nullopt : continued(copies.back(), box);
    if (both) {
      copies.back() = *std::move(both);
    } else {
      copies.push_back(std::move(box));
    }
  }
  move.copies = std::move(copies);
}

CopyBox reversed(const CopyBox& box) {
  return {box.input,   box.output_offset,  box.input_offset,
          box.extents, box.output_strides, box.input_strides};
}

// Runs of elements that lie together on both sides.
std::int64_t run_count(const std::vector<CopyBox>& boxes) {
  std::int64_t runs = 0;
  for (const CopyBox& box : boxes) {
    std::int64_t run = 1;
    for (std::size_t i = box.extents.size(); i-- > 0;) {
      if (box.input_strides[i] != run || box.output_strides[i] != run) break;
      run *= box.extents[i];
    }
    runs += box_elements(box) / run;
  }
  return runs;
}

// `node` permutes all of what several boxes wrote: they write where it would have put it.
void take_over_boxes(Graph& graph, const Links& links, Node& node) {
  auto& move = node.as<MoveAttributes>();
  if (move.has_fill || move.copies.size() != 1 || node.inputs.size() != 1) return;
  const TensorId between = node.inputs[0];
  const std::int32_t index = links.producer(between);
  if (index < 0 || !links.has_single_use(between)) return;
  const Node& first = graph.nodes[index];
  if (first.kind() != NodeKind::kMove) return;
  const auto& first_move = first.as<MoveAttributes>();
  const std::int64_t count = element_count(graph.tensor(between).dims);
  if ((first_move.copies.size() == 1 && !first_move.has_fill) ||
      box_elements(move.copies[0]) != count ||
      element_count(graph.tensor(node.outputs[0]).dims) != count) {
    return;
  }
  std::vector<CopyBox> copies;
  for (const CopyBox& box : first_move.copies) {
    auto placed = composed(reversed(move.copies[0]), count, reversed(box));
    if (!placed) return;
    copies.push_back(reversed(*placed));
    copies.back().input = box.input;
  }
  if (run_count(copies) >= run_count(first_move.copies)) return;
  move.has_fill = first_move.has_fill;
  move.fill = first_move.fill;
  move.copies = std::move(copies);
  node.inputs = first.inputs;
  add_origins(node.origins, first.origins);
}

}  // namespace

void clean_moves(Graph& graph) {
  // Nodes are in order, so a producer has been cleaned before its readers are looked at.
  const Links links(graph);
  for (Node& node : graph.nodes) {
    if (node.kind() != NodeKind::kMove) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) skip_producer(graph, links, node, i);
    join_neighbours(node);
    if (node.inputs.size() == 1) take_over_boxes(graph, links, node);
  }
  LiveLinks uses(graph);
  for (const Node& node : graph.nodes) {
    if (!does_nothing(graph, node) || links.is_output(node.outputs[0])) continue;
    uses.replace_uses(graph, node.outputs[0], node.inputs[0]);
  }
  tidy(graph);
}

}  // namespace tessera::graph
