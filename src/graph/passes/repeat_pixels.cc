// An image whose pixels are repeated (the nearest neighbour by whole factors) is written by the planar
// engine, once for each of the columns that a pixel becomes, and not gathered pixel by pixel from DRAM.
//
//   x ─► Move (rows and columns repeated)     =>   x ─► Move (rows repeated: a view) ─┬► identity ─┐
//                                                                                    └► identity ─┴► Move
//
// The last Move puts the columns side by side, so that each identity writes every second column. An image that would fill
// much of the state buffer may not find room there, and every second column of memory takes as long as all of them. So
// it is made in blocks of rows, each of which another identity puts in its place:
//
//   rows of x ─► Move (rows repeated) ─┬► identity ─┐
//                                      └► identity ─┴► Move (a block) ─► identity ─┐
//   the next rows of x ─► ...                                      ─► identity ─┴► Move
//
// Before: formats are settled. After: the same. Values: none changes.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

// Smaller images take less time than the tasks.
constexpr std::int64_t kElementsMin = 4096;
constexpr std::int64_t kColumnsMax = 8;
// Of the state buffer: as much as half of it is made without blocks, of a twelfth each.
constexpr std::int64_t kWholeShare = 2;
constexpr std::int64_t kBlockShare = 12;
constexpr std::int64_t kBlocksMax = 16;

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

// How many blocks of rows an image is made in; 1: as a whole.
std::int64_t blocks_of(const Repeated& image, Format format, const StateBuffer& buffer) {
  if (buffer.bytes_per_partition == 0) return 1;
  const std::int64_t partition =
      ceil_div(image.channels, buffer.partitions) * image.pixels() * format_bytes(format);
  if (partition <= buffer.bytes_per_partition / kWholeShare) return 1;
  return std::min(
      {ceil_div(kBlockShare * partition, buffer.bytes_per_partition), kBlocksMax, image.height});
}

// The boxes that put the columns of columns_of() side by side, inputs from `input_first` on, from element `first` of the
// output on.
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

// One tensor for each column that a pixel becomes, with its rows repeated: of `part`, whose first row is row `first_row` of
// the planes of x, `height` rows high. Each row of x is an image of it, so that channels stay where they are.
std::vector<TensorId> columns_of(Graph& graph, Editor& editor, const Node& node, TensorId input,
                                 const Repeated& part, std::int64_t first_row,
                                 std::int64_t height) {
  // A copy: new tensors move the others.
  const TensorInfo x = graph.tensor(input);  // NOLINT(performance-unnecessary-copy-initialization)
  const Shape dims = {part.height, part.channels, part.rows, part.width};
  const TensorId rows = editor.add_tensor(x.name + ".rows", x.format, dims);
  const CopyBox box{0,
                    first_row * part.width,
                    0,
                    {part.height, part.channels, part.rows, part.width},
                    {part.width, height * part.width, 0, 1},
                    row_major_strides(dims)};
  editor.add_node(node.name + ".rows", node.origins, {input}, {rows},
                  MoveAttributes{false, 0, {box}});
  std::vector<TensorId> columns;
  for (std::int64_t column = 0; column < part.columns; ++column) {
    const std::string suffix = fmt::format(".column_{}", column);
    columns.push_back(editor.add_tensor(x.name + suffix, x.format, dims));
    editor.add_node(node.name + suffix, node.origins, {rows}, {columns.back()},
                    ElementwiseAttributes{});
  }
  return columns;
}

// A block of rows of the output, put together and copied once more: what is copied lies there in whole lines.
TensorId block_of(Graph& graph, Editor& editor, const Node& node, TensorId input,
                  const Repeated& part, std::int64_t first_row, std::int64_t height) {
  const Format format = graph.tensor(input).format;
  std::vector<TensorId> columns = columns_of(graph, editor, node, input, part, first_row, height);
  const Shape dims = {1, part.channels, part.height * part.rows, part.width * part.columns};
  const TensorId block = editor.add_tensor(node.name + ".block", format, dims);
  const TensorId copy = editor.add_tensor(node.name + ".lines", format, dims);
  editor.add_node(node.name + ".block", node.origins, std::move(columns), {block},
                  MoveAttributes{false, 0, side_by_side(part, 0, 0)});
  editor.add_node(node.name + ".lines", node.origins, {block}, {copy}, ElementwiseAttributes{});
  return copy;
}

// What takes the place of a box, from element `first` of the output on: more inputs, and their boxes.
void repeat(Graph& graph, Editor& editor, const Node& node, TensorId input, const Repeated& image,
            std::int64_t blocks, std::int64_t first, std::vector<TensorId>& inputs,
            std::vector<CopyBox>& copies) {
  if (blocks == 1) {
    for (CopyBox& box : side_by_side(image, inputs.size(), first)) {
      copies.push_back(std::move(box));
    }
    for (const TensorId id : columns_of(graph, editor, node, input, image, 0, image.height)) {
      inputs.push_back(id);
    }
    return;
  }
  for (std::int64_t block = 0; block < blocks; ++block) {
    const std::int64_t first_row = image.height * block / blocks;
    Repeated part = image;
    part.height = image.height * (block + 1) / blocks - first_row;
    const std::int64_t line = image.rows * image.width * image.columns;  // of one of x
    copies.push_back({static_cast<std::int32_t>(inputs.size()),
                      0,
                      first + first_row * line,
                      {part.channels, part.height * line},
                      {part.height * line, 1},
                      {image.height * line, 1}});
    inputs.push_back(block_of(graph, editor, node, input, part, first_row, image.height));
  }
}

void rewrite(Graph& graph, Editor& editor, std::size_t index, const StateBuffer& buffer) {
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
    std::int64_t blocks = blocks_of(of, graph.tensor(input).format, buffer);
    if (std::ssize(inputs) + blocks > static_cast<std::int64_t>(kBoxesMax)) blocks = 1;
    repeat(graph, editor, node, input, of, blocks, box.output_offset, inputs, copies);
  }
  move.copies = std::move(copies);
  graph.nodes[index].inputs = inputs_read(inputs, move.copies);
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

void repeat_pixels(Graph& graph) { repeat_pixels_for(graph, {}); }

void repeat_pixels_for(Graph& graph, const StateBuffer& buffer) {
  const std::size_t count = graph.nodes.size();
  Editor editor(graph);
  for (std::size_t i = 0; i < count; ++i) {
    if (has_repeated(graph, graph.nodes[i])) rewrite(graph, editor, i, buffer);
  }
  tidy(graph);
}

}  // namespace tessera::graph
