// A Move that puts elements of tensors between each other (rotary embeddings: every other channel, negated,
// beside its neighbour) has its parts written by the planar engine, and not gathered element by element from
// DRAM.
//
//   a ─► Neg ─► n ─┐                        a ─► Neg ─► n ──────────────────────┐
//   b ─────────────┴─► Move (n0 b0 n1 ...)  b ─► Move (a view) ─► identity ─► i ─┴─► Move
//
// So every part has a producer of its own, which writes every second element.
//
// Before: formats are settled. After: the same. Values: none changes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Smaller parts take less time than the tasks.
constexpr std::int64_t kBetweenMin = 512;
constexpr std::int64_t kRunMax = 32;  // elements side by side, a part of a burst
constexpr std::size_t kBetweenMax = 8, kBetweenAxesMax = 4;

// Few elements lie side by side on both sides.
bool lies_between_others(const CopyBox& box) {
  const CopyBox simple = simplified(box);
  const bool side_by_side = simple.input_strides.back() == 1 && simple.output_strides.back() == 1;
  return simple.extents.size() <= kBetweenAxesMax && box_elements(box) >= kBetweenMin &&
         std::ranges::min(simple.input_strides) > 0 &&
         (!side_by_side || simple.extents.back() <= kRunMax);
}

// Its producer writes it for this Move alone.
bool is_made_for(const Graph& graph, const Links& links, TensorId id, const CopyBox& box) {
  const NodeKind kind = graph.nodes[links.producer(id)].kind();
  return links.has_single_use(id) && kind != NodeKind::kMove && kind != NodeKind::kHostStep &&
         box_elements(box) == element_count(graph.tensor(id).dims);
}

bool interleaves(const Graph& graph, const Links& links, const Node& node) {
  if (node.kind() != NodeKind::kMove || links.is_output(node.outputs[0])) return false;
  const auto& move = node.as<MoveAttributes>();
  const bool fits = !move.has_fill && move.copies.size() > 1 && move.copies.size() <= kBetweenMax &&
                    is_vector_float(graph.tensor(node.outputs[0]).format);
  if (!fits) return false;
  bool is_made = false;
  for (const CopyBox& box : move.copies) {
    const TensorId input = node.inputs[static_cast<std::size_t>(box.input)];
    if (links.producer(input) < 0 || !lies_between_others(box)) return false;
    is_made = is_made || is_made_for(graph, links, input, box);
  }
  return is_made;
}

void interleave(Graph& graph, Editor& editor, const Links& links, std::size_t index) {
  const Node node = graph.nodes[index];
  auto move = node.as<MoveAttributes>();
  std::vector<TensorId> inputs = node.inputs;
  for (CopyBox& box : move.copies) {
    const TensorId input = node.inputs[static_cast<std::size_t>(box.input)];
    if (is_made_for(graph, links, input, box)) continue;
    const std::string name = graph.tensor(input).name;
    const Format format = graph.tensor(input).format;
    CopyBox part = simplified(box);
    const CopyBox view{
        0, part.input_offset, 0, part.extents, part.input_strides, row_major_strides(part.extents)};
    const TensorId seen = editor.add_tensor(name + ".part", format, part.extents);
    const TensorId made = editor.add_tensor(name + ".between", format, part.extents);
    editor.add_node(node.name + ".part", node.origins, {input}, {seen},
                    MoveAttributes{false, 0, {view}});
    editor.add_node(node.name + ".between", node.origins, {seen}, {made}, ElementwiseAttributes{});
    part.input = static_cast<std::int32_t>(inputs.size());
    part.input_offset = 0;
    part.input_strides = row_major_strides(part.extents);
    box = std::move(part);
    inputs.push_back(made);
  }
  graph.nodes[index].inputs = inputs_read(inputs, move.copies);
  graph.nodes[index].attributes = std::move(move);
}

}  // namespace

void interleave_parts(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  Editor editor(graph);
  const Links links(graph);
  for (std::size_t i = 0; i < count; ++i) {
    if (interleaves(graph, links, graph.nodes[i])) interleave(graph, editor, links, i);
  }
  tidy(graph);
}

}  // namespace tessera::graph
