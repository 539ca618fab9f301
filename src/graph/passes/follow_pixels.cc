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
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr std::int64_t kFollowedElementsMin = 4096;  // fewer take less time than the tasks
constexpr std::int64_t kLanes = 128;                 // more partitions than these are no better
constexpr std::int64_t kSideBySideMax = 8;           // a task for each
constexpr std::int64_t kBlocksMax = 8, kBlockRowsMin = 32;
constexpr std::int64_t kLineMin = 64;  // shorter runs of DRAM are no better than elements

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

// The axis with most lanes, the outermost of several, becomes the second one, which channels are. A line of
// pixels stays last.
void put_channels_second(std::vector<WalkAxis>& axes, bool has_line) {
  if (axes.size() == 2) axes.insert(axes.begin(), {1, 1, 1});
  const auto lanes = [](const WalkAxis& axis) { return std::min(axis.extent, kLanes); };
  const auto channels =
      std::ranges::max_element(axes.begin(), axes.end() - (has_line ? 1 : 0), std::less{}, lanes);
  const WalkAxis found = *channels;
  axes.erase(channels);
  axes.insert(axes.begin() + 1, found);
}

// Pixels from different planes of x that lie side by side in a line of y: 1 where there are none. The two
// innermost axes become one, along which every `count`-th element is a run of x.
struct SideBySide {
  std::int64_t count = 1;
  std::int64_t from = 0;  // elements of x from one plane to the next
};

SideBySide join_side_by_side(std::vector<WalkAxis>& axes) {
  const WalkAxis pixels = axes.back(), line = axes[axes.size() - 2];
  if (pixels.extent > kSideBySideMax || pixels.from == 1 || pixels.to != 1 || line.from != 1 ||
      line.to != pixels.extent || line.extent < kLineMin) {
    return {};
  }
  axes.pop_back();
  axes.back() = {line.extent * pixels.extent, 1, 1};
  return {pixels.extent, pixels.from};
}

// What a node is to read in place of the Move that it reads, and where its results are to go.
struct Around {
  TensorId source{};
  SideBySide pixels;
  Shape dims;
  CopyBox part;  // of the source: what the node sees, or each of the pixels side by side
  CopyBox behind;
  WalkAxis blocks;  // of rows, each with a node of its own: from one to the next
};

// One block is stored while the next is made, the first while the producer still works, and each fits
// where all of them do not.
std::int64_t blocks_of(std::int64_t rows) {
  std::int64_t blocks = kBlocksMax;
  while (blocks > 1 && (rows % blocks != 0 || rows / blocks < kBlockRowsMin)) --blocks;
  return blocks;
}

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
  Around around;
  around.source = move.inputs[0];
  around.pixels = join_side_by_side(*axes);
  put_channels_second(*axes, around.pixels.count > 1);
  if (around.pixels.count > 1) {
    WalkAxis& rows = (*axes)[1];
    around.blocks.extent = blocks_of(rows.extent);
    rows.extent /= around.blocks.extent;
    around.blocks.from = rows.extent * rows.from;
    around.blocks.to = rows.extent * rows.to;
  }
  around.part.input_offset = move.as<MoveAttributes>().copies[0].input_offset;
  for (const WalkAxis& axis : *axes) {
    around.dims.push_back(axis.extent);
    around.part.input_strides.push_back(axis.from);
    around.behind.output_strides.push_back(axis.to);
  }
  around.behind.extents = around.part.extents = around.dims;
  around.behind.input_strides = row_major_strides(around.dims);
  around.part.extents.back() /= around.pixels.count;
  around.part.output_strides = row_major_strides(around.part.extents);
  return around;
}

// Puts what the node reads, `whole`, side by side: an identity for each of the pixels.
void interleave_pixels(Graph& graph, Editor& editor, const Around& around, const Node& node,
                       const CopyBox& first, TensorId whole) {
  const TensorInfo x = graph.tensor(whole);  // NOLINT(performance-unnecessary-copy-initialization)
  std::vector<TensorId> made;
  MoveAttributes join;
  CopyBox part = first;
  for (std::int64_t i = 0; i < around.pixels.count; ++i) {
    const std::string seen_name = fmt::format("{}.part_{}", x.name, i);
    const std::string made_name = fmt::format("{}.pixels_{}", x.name, i);
    const TensorId seen = editor.add_tensor(seen_name, x.format, part.extents);
    made.push_back(editor.add_tensor(made_name, x.format, part.extents));
    editor.add_node(seen_name, node.origins, {around.source}, {seen},
                    MoveAttributes{false, 0, {part}});
    editor.add_node(made_name, node.origins, {seen}, {made.back()}, ElementwiseAttributes{});
    join.copies.push_back({static_cast<std::int32_t>(i), 0, i, part.extents, part.output_strides,
                           row_major_strides(around.dims)});
    join.copies.back().output_strides.back() = around.pixels.count;
    part.input_offset += around.pixels.from;
  }
  editor.add_node(x.name, node.origins, std::move(made), {whole}, std::move(join));
}

void follow(Graph& graph, Editor& editor, NodeIndex index, const Around& around) {
  const Node node = graph.nodes[index];
  const TensorInfo x = graph.tensor(node.inputs[0]);
  const TensorInfo y = graph.tensor(node.outputs[0]);
  MoveAttributes placed;
  std::vector<TensorId> results;
  for (std::int64_t block = 0; block < around.blocks.extent; ++block) {
    const TensorId seen = editor.add_tensor(x.name + ".axes", x.format, around.dims);
    results.push_back(editor.add_tensor(y.name + ".axes", y.format, around.dims));
    CopyBox part = around.part;
    part.input_offset += block * around.blocks.from;
    if (around.pixels.count > 1) {
      interleave_pixels(graph, editor, around, node, part, seen);
    } else {
      editor.add_node(x.name + ".axes", node.origins, {around.source}, {seen},
                      MoveAttributes{false, 0, {part}});
    }
    if (block == 0) {
      graph.nodes[index].inputs = {seen};
      graph.nodes[index].outputs = {results.back()};
    } else {
      editor.add_node(node.name, node.origins, {seen}, {results.back()}, node.attributes);
    }
    placed.copies.push_back(around.behind);
    placed.copies.back().input = static_cast<std::int32_t>(block);
    placed.copies.back().output_offset = block * around.blocks.to;
  }
  editor.add_node(y.name + ".placed", node.origins, std::move(results), {node.outputs[0]},
                  std::move(placed));
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
  for (const auto& [index, around] : found) follow(graph, editor, index, around);
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
