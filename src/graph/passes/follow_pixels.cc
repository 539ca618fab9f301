// An element-wise node behind a Move that puts axes between others (pixels of a depth-to-space) reads what
// the Move reads, axis by axis, and another Move puts its results in place.
//
//   x ─► Move ─► Elementwise ─► y     =>     x ─► Move (permutes axes) ─► Elementwise ─► Move ─► y
//
// The first Move becomes a view, since the node has an axis for each of it, and the node writes where the
// second puts its results. Seen with the axes of y, the node would want the pixels in the order of y,
// and they would pass memory once more.
//
// Before: formats are settled. After: the same. Values: none changes.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr std::int64_t kFollowedElementsMin = 4096;  // fewer take less time than the tasks
constexpr std::int64_t kLanes = 128;                 // more partitions than these are no better

struct WalkAxis {
  std::int64_t extent = 1, from = 0, to = 0;  // elements from one to the next
};

// All axes of a Move that permutes its output's elements, outermost of the output first.
std::optional<std::vector<WalkAxis>> permuted_axes(const Graph& graph, const Node& node) {
  const auto& move = node.as<MoveAttributes>();
  const std::int64_t count = element_count(graph.tensor(node.outputs[0]).dims);
  if (move.has_fill || move.copies.size() != 1 || count < kFollowedElementsMin ||
      box_elements(move.copies[0]) != count) {
    return std::nullopt;
  }
  const CopyBox box = simplified(move.copies[0]);
  std::vector<WalkAxis> axes;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (box.input_strides[i] <= 0) return std::nullopt;
    axes.push_back({box.extents[i], box.input_strides[i], box.output_strides[i]});
  }
  std::ranges::sort(axes, std::greater{}, &WalkAxis::to);
  return axes;
}

// Whether each axis is one of `dims`, so that a node of that shape sees it.
bool are_axes_of(const std::vector<WalkAxis>& axes, const Shape& dims) {
  std::vector<std::int64_t> wide, extents;
  for (const std::int64_t dim : dims) {
    if (dim != 1) wide.push_back(dim);
  }
  for (const WalkAxis& axis : axes) extents.push_back(axis.extent);
  return wide == extents;
}

// The axis with most lanes, the outermost of several, becomes the second one, which channels are.
void put_channels_second(std::vector<WalkAxis>& axes) {
  const auto lanes = [](const WalkAxis& axis) { return std::min(axis.extent, kLanes); };
  const auto channels = std::ranges::max_element(axes, std::less{}, lanes);
  const WalkAxis found = *channels;
  axes.erase(channels);
  axes.insert(axes.begin() + 1, found);
}

// The Move that `node` is to read in place of the one that it reads, and the one behind it.
struct Around {
  TensorId source;
  Shape dims;
  CopyBox before, behind;
};

std::optional<Around> moves_around(const Graph& graph, const Links& links, const Node& node) {
  if (node.kind() != NodeKind::kElementwise || node.inputs.size() != 1) return std::nullopt;
  const NodeIndex producer = links.producer(node.inputs[0]);
  if (producer < 0 || graph.nodes[producer].kind() != NodeKind::kMove) return std::nullopt;
  const Node& move = graph.nodes[producer];
  auto axes = permuted_axes(graph, move);
  if (!axes || axes->size() < 3 || axes->size() > 4 ||
      are_axes_of(*axes, graph.tensor(node.outputs[0]).dims)) {
    return std::nullopt;
  }
  put_channels_second(*axes);
  Around around{.source = move.inputs[0], .dims = {}, .before = {}, .behind = {}};
  for (const WalkAxis& axis : *axes) {
    around.dims.push_back(axis.extent);
    around.before.input_strides.push_back(axis.from);
    around.behind.output_strides.push_back(axis.to);
  }
  around.before.extents = around.behind.extents = around.dims;
  around.before.output_strides = around.behind.input_strides = row_major_strides(around.dims);
  around.before.input_offset = move.as<MoveAttributes>().copies[0].input_offset;
  return around;
}

}  // namespace

void follow_pixels(Graph& graph) {
  const Links links(graph);
  std::vector<std::pair<NodeIndex, Around>> found;
  for (NodeIndex i = 0; i < static_cast<NodeIndex>(graph.nodes.size()); ++i) {
    if (auto around = moves_around(graph, links, graph.nodes[i])) {
      found.emplace_back(i, std::move(*around));
    }
  }
  Editor editor(graph);
  for (const auto& [index, around] : found) {
    const TensorInfo x = graph.tensor(graph.nodes[index].inputs[0]);
    const TensorInfo y = graph.tensor(graph.nodes[index].outputs[0]);
    const std::vector<std::string> origins = graph.nodes[index].origins;
    const TensorId seen = editor.add_tensor(x.name + ".axes", x.format, around.dims);
    const TensorId result = editor.add_tensor(y.name + ".axes", y.format, around.dims);
    const TensorId output = graph.nodes[index].outputs[0];
    graph.nodes[index].inputs = {seen};
    graph.nodes[index].outputs = {result};
    editor.add_node(x.name + ".axes", origins, {around.source}, {seen},
                    MoveAttributes{false, 0, {around.before}});
    editor.add_node(y.name + ".placed", origins, {result}, {output},
                    MoveAttributes{false, 0, {around.behind}});
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
