// A concatenation that has all parts of another one, side by side as they are there, has that one as a part.
// Networks whose layers read all that came before them then have one whole, in which each concatenation
// is the beginning of the next, and nothing is copied.
//
//   p = Move (a b)         p = Move (a b)
//   q = Move (a b c)  =>   q = Move (p c)
//
// Before: formats are settled. After: the same. Values: none changes.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

bool is_concatenation(const Node& node) {
  if (node.kind() != NodeKind::kMove) return false;
  const auto& move = node.as<MoveAttributes>();
  return !move.has_fill && move.copies.size() > 1;
}

// The same elements of the same tensor, `offset` elements further.
bool is_moved_by(const Node& whole, const CopyBox& box, const Node& part, const CopyBox& of_part,
                 std::int64_t offset) {
  return whole.inputs[static_cast<std::size_t>(box.input)] ==
             part.inputs[static_cast<std::size_t>(of_part.input)] &&
         box.input_offset == of_part.input_offset &&
         box.output_offset == of_part.output_offset + offset && box.extents == of_part.extents &&
         box.input_strides == of_part.input_strides && box.output_strides == of_part.output_strides;
}

// Where `part` begins in `whole`; its boxes are those of `whole` from `first` on.
struct Nested {
  std::size_t first = 0;
  std::int64_t offset = 0;
};
std::optional<Nested> find_nested(const Graph& graph, const Node& whole, const Node& part) {
  const auto& boxes = whole.as<MoveAttributes>().copies;
  const auto& parts = part.as<MoveAttributes>().copies;
  if (parts.size() >= boxes.size()) return std::nullopt;
  if (graph.tensor(whole.outputs[0]).format != graph.tensor(part.outputs[0]).format) {
    return std::nullopt;
  }
  for (std::size_t first = 0; first + parts.size() <= boxes.size(); ++first) {
    const std::int64_t offset = boxes[first].output_offset - parts[0].output_offset;
    if (offset < 0) continue;
    bool same = true;
    for (std::size_t i = 0; i < parts.size() && same; ++i) {
      same = is_moved_by(whole, boxes[first + i], part, parts[i], offset);
    }
    if (same) return Nested{first, offset};
  }
  return std::nullopt;
}

// The boxes write every element, so that the part is dense in the whole.
bool covers(const Graph& graph, const Node& node) {
  std::int64_t elements = 0;
  for (const CopyBox& box : node.as<MoveAttributes>().copies) elements += box_elements(box);
  return elements == element_count(graph.tensor(node.outputs[0]).dims);
}

void nest(const Graph& graph, Node& whole, const Node& part, const Nested& at) {
  auto move = whole.as<MoveAttributes>();
  CopyBox box = dense_box(element_count(graph.tensor(part.outputs[0]).dims));
  box.output_offset = at.offset;
  box.input = static_cast<std::int32_t>(whole.inputs.size());
  whole.inputs.push_back(part.outputs[0]);
  const auto first = move.copies.begin() + static_cast<std::ptrdiff_t>(at.first);
  const auto parts = static_cast<std::ptrdiff_t>(part.as<MoveAttributes>().copies.size());
  *first = std::move(box);
  move.copies.erase(first + 1, first + parts);
  whole.inputs = inputs_read(whole.inputs, move.copies);
  whole.attributes = std::move(move);
}

}  // namespace

void nest_concatenations(Graph& graph) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    if (is_concatenation(graph.nodes[i])) found.push_back(i);
  }
  // Longest first, each by the longest that it contains: those keep their parts until then.
  const auto parts = [&](std::size_t i) {
    return graph.nodes[i].as<MoveAttributes>().copies.size();
  };
  std::ranges::stable_sort(found,
                           [&](std::size_t a, std::size_t b) { return parts(a) > parts(b); });
  for (std::size_t k = 0; k < found.size(); ++k) {
    Node& whole = graph.nodes[found[k]];
    for (std::size_t other = k + 1; other < found.size(); ++other) {
      const Node& part = graph.nodes[found[other]];
      if (!covers(graph, part)) continue;
      if (const auto at = find_nested(graph, whole, part)) {
        nest(graph, whole, part, *at);
        break;
      }
    }
  }
  tidy(graph);
}

}  // namespace tessera::graph
