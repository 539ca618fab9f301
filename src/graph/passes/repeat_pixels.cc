// An image whose pixels are repeated (the nearest neighbour by whole factors) is written by the planar
// engine, once for each of the columns that a pixel becomes, and not gathered pixel by pixel from DRAM.
//
//   x ─► Move (rows and columns repeated)     =>   x ─► Move (rows repeated: a view) ─┬► identity ─┐
//                                                                                    └► identity ─┴► Move
//
// The last Move puts the columns side by side, so that each identity writes every second column.
//
// Before: formats are settled. After: the same. Values: none changes.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Smaller images take less time than the tasks.
constexpr std::int64_t kElementsMin = 4096;
constexpr std::int64_t kColumnsMax = 8;

// x [1, channels, height, width], each pixel `rows` times below and `columns` times beside itself.
struct Repeated {
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t rows = 1, columns = 1;

  std::int64_t pixels() const { return height * rows * width * columns; }  // of a channel's plane
};

// False where the box does anything else.
bool find_repeated(const TensorInfo& x, const CopyBox& box, Repeated& found) {
  if (!is_vector_float(x.format) || x.dims.size() != 4 || x.dims[0] != 1) return false;
  const CopyBox simple = simplified(box);
  if (simple.input_offset != 0 || simple.extents.size() != 4) return false;
  found = {x.dims[1], x.dims[2], x.dims[3], simple.extents[1], simple.extents[3]};
  const std::int64_t line = found.width * found.columns;
  const std::vector<std::int64_t> extents = {found.channels * found.height, found.rows, found.width,
                                             found.columns};
  const std::vector<std::int64_t> from = {found.width, 0, 1, 0};
  const std::vector<std::int64_t> to = {found.rows * line, line, found.columns, 1};
  return simple.extents == extents && simple.input_strides == from && simple.output_strides == to &&
         found.columns <= kColumnsMax && found.channels * found.pixels() >= kElementsMin;
}

// The boxes that put the columns of columns_of() side by side, from element `first` of the output on.
std::vector<CopyBox> side_by_side(const Repeated& of, std::size_t input_first, std::int64_t first) {
  std::vector<CopyBox> boxes;
  const std::int64_t line = of.width * of.columns;
  for (std::int64_t column = 0; column < of.columns; ++column) {
    boxes.push_back({static_cast<std::int32_t>(input_first) + static_cast<std::int32_t>(column),
                     0,
                     first + column,
                     {of.height, of.channels, of.rows, of.width},
                     {of.channels * of.rows * of.width, of.rows * of.width, of.width, 1},
                     {of.rows * line, of.pixels(), line, of.columns}});
  }
  return boxes;
}

// One tensor for each column that a pixel becomes, with its rows repeated. Each row of x is an image
// of it, so that channels stay where they are.
std::vector<TensorId> columns_of(Graph& graph, Editor& editor, const Node& node, TensorId input,
                                 const Repeated& of) {
  // A copy: new tensors move the others.
  const TensorInfo x = graph.tensor(input);  // NOLINT(performance-unnecessary-copy-initialization)
  const Shape dims = {of.height, of.channels, of.rows, of.width};
  const TensorId rows = editor.add_tensor(x.name + ".rows", x.format, dims);
  const CopyBox box{0,
                    0,
                    0,
                    {of.height, of.channels, of.rows, of.width},
                    {of.width, of.height * of.width, 0, 1},
                    row_major_strides(dims)};
  editor.add_node(node.name + ".rows", node.origins, {input}, {rows},
                  MoveAttributes{false, 0, {box}});
  std::vector<TensorId> columns;
  for (std::int64_t column = 0; column < of.columns; ++column) {
    const std::string suffix = fmt::format(".column_{}", column);
    columns.push_back(editor.add_tensor(x.name + suffix, x.format, dims));
    editor.add_node(node.name + suffix, node.origins, {rows}, {columns.back()},
                    ElementwiseAttributes{});
  }
  return columns;
}

void rewrite(Graph& graph, Editor& editor, std::size_t index) {
  const Node node = graph.nodes[index];
  auto move = node.as<MoveAttributes>();
  std::vector<TensorId> inputs = node.inputs;
  std::vector<CopyBox> copies;
  for (const CopyBox& box : move.copies) {
    const TensorId input = node.inputs[static_cast<std::size_t>(box.input)];
    Repeated of;
    if (!find_repeated(graph.tensor(input), box, of)) {
      copies.push_back(box);
      continue;
    }
    std::vector<TensorId> columns = columns_of(graph, editor, node, input, of);
    for (CopyBox& part : side_by_side(of, inputs.size(), box.output_offset)) {
      copies.push_back(std::move(part));
    }
    inputs.insert(inputs.end(), columns.begin(), columns.end());
  }
  move.copies = std::move(copies);
  graph.nodes[index].inputs = std::move(inputs);
  graph.nodes[index].attributes = std::move(move);
}

bool has_repeated(const Graph& graph, const Node& node) {
  if (node.kind() != NodeKind::kMove) return false;
  Repeated of;
  for (const CopyBox& box : node.as<MoveAttributes>().copies) {
    const TensorInfo& x = graph.tensor(node.inputs[static_cast<std::size_t>(box.input)]);
    if (x.constant == nullptr && find_repeated(x, box, of)) return true;
  }
  return false;
}

}  // namespace

void repeat_pixels(Graph& graph) {
  const std::size_t count = graph.nodes.size();
  Editor editor(graph);
  for (std::size_t i = 0; i < count; ++i) {
    if (has_repeated(graph, graph.nodes[i])) rewrite(graph, editor, i);
  }
  tidy(graph);
}

}  // namespace tessera::graph
