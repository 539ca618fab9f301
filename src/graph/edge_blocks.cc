#include "graph/edge_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/quantity.h"
#include "graph/editor.h"

namespace tessera::graph {
namespace {

// Some rows of a matrix that lie alike in blocks, or columns: whole blocks, or the rest behind
// them.
struct Part {
  std::int64_t first = 0;   // row or column
  std::int64_t blocks = 0;  // number of blocks
  std::int64_t extent = 0;  // rows or columns of them that belong to the matrix
};

std::vector<Part> parts_of(std::int64_t extent, std::int64_t block) {
  std::vector<Part> parts;
  const std::int64_t whole = extent / block;
  if (whole > 0) parts.push_back({0, whole, block});
  if (extent % block > 0) parts.push_back({whole * block, 1, extent % block});
  return parts;
}

// The boxes between a dense matrix and its blocks.
MoveAttributes block_move(const MatrixSize& size, const BlockLayout& layout, bool to_blocks) {
  const std::int64_t block = layout.rows * layout.columns;
  const std::int64_t across = ceil_div(size.columns, layout.columns);
  MoveAttributes move;
  for (const Part& down : parts_of(size.rows, layout.rows)) {
    for (const Part& along : parts_of(size.columns, layout.columns)) {
      const std::int64_t dense_offset = down.first * size.columns + along.first;
      const std::int64_t block_offset =
          (down.first / layout.rows * across + along.first / layout.columns) * block;
      CopyBox box;
      box.input_offset = to_blocks ? dense_offset : block_offset;
      box.output_offset = to_blocks ? block_offset : dense_offset;
      const auto add = [&](std::int64_t extent, std::int64_t dense, std::int64_t blocked) {
        if (extent == 1) return;
        box.extents.push_back(extent);
        box.input_strides.push_back(to_blocks ? dense : blocked);
        box.output_strides.push_back(to_blocks ? blocked : dense);
      };
      add(down.blocks, layout.rows * size.columns, across * block);
      add(down.extent, size.columns, layout.columns);
      add(along.blocks, layout.columns, block);
      add(along.extent, 1, 1);
      if (box.extents.empty()) {
        box.extents = {1};
        box.input_strides = box.output_strides = {1};
      }
      move.copies.push_back(std::move(box));
    }
  }
  const bool padded = size.rows % layout.rows != 0 || size.columns % layout.columns != 0;
  move.has_fill = to_blocks && padded;
  return move;
}

MoveAttributes to_blocks(const Shape& dense, const BlockLayout& layout) {
  return block_move(matrix_of(dense), layout, true);
}
MoveAttributes from_blocks(const Shape& dense, const BlockLayout& layout) {
  return block_move(matrix_of(dense), layout, false);
}

bool same_move(const Node& node, const MoveAttributes& move) {
  if (node.kind() != NodeKind::kMove || node.inputs.size() != 1) return false;
  const auto& other = node.as<MoveAttributes>();
  return other.has_fill == move.has_fill && other.fill == move.fill && other.copies == move.copies;
}

// The tensor's name goes to the new one; its own says what it is now.
void hand_name_on(Editor& editor, Graph& graph, TensorId from, TensorId to, const char* what) {
  const std::string name = graph.tensor(from).name;
  editor.rename_tensor(from, fmt::format("{} {}", name, what));
  editor.rename_tensor(to, name);
}

void block_input(Editor& editor, Graph& graph, TensorId id, const BlockLayout& layout) {
  const TensorInfo info = graph.tensor(id);
  const TensorId inside = editor.add_tensor(info.name + " dense", info.format, info.dims);
  replace_uses(graph, id, inside);  // but not in outputs: as one of those its blocks pass through
  graph.tensor(id).dense_dims = info.dims;
  graph.tensor(id).dims = blocked_dims(info.dims, layout);
  editor.add_node(info.name + " out of blocks", {}, {id}, {inside}, from_blocks(info.dims, layout));
}

TensorId block_output(Editor& editor, Graph& graph, TensorId id, const BlockLayout& layout) {
  const TensorInfo info = graph.tensor(id);
  const TensorId outside =
      editor.add_tensor(info.name + " blocks", info.format, blocked_dims(info.dims, layout));
  graph.tensor(outside).dense_dims = info.dims;
  editor.add_node(info.name + " into blocks", {}, {id}, {outside}, to_blocks(info.dims, layout));
  hand_name_on(editor, graph, id, outside, "dense");
  return outside;
}

void make_input_dense(Editor& editor, Graph& graph, std::size_t i) {
  const TensorId id = graph.inputs[i];
  const TensorInfo info = graph.tensor(id);
  const MoveAttributes move = from_blocks(info.dense_dims, layout_of(info));
  const Links links(graph);
  graph.tensor(id).dense_dims.clear();
  if (links.has_single_use(id)) {
    const Node& reader = graph.nodes[links.consumers(id)[0]];
    const TensorId inside = reader.outputs[0];
    if (same_move(reader, move) && graph.tensor(inside).dims == info.dense_dims) {
      const auto at = graph.nodes.begin() + links.consumers(id)[0];
      graph.inputs[i] = inside;
      graph.nodes.erase(at);
      hand_name_on(editor, graph, id, inside, "blocks");
      return;
    }
  }
  const TensorId outside = editor.add_tensor(info.name + " dense", info.format, info.dense_dims);
  graph.inputs[i] = outside;
  std::replace(graph.outputs.begin(), graph.outputs.end(), id, outside);
  editor.add_node(info.name + " into blocks", {}, {outside}, {id},
                  to_blocks(info.dense_dims, layout_of(info)));
  hand_name_on(editor, graph, id, outside, "blocks");
}

TensorId make_output_dense(Editor& editor, Graph& graph, TensorId id) {
  const TensorInfo info = graph.tensor(id);
  const MoveAttributes move = to_blocks(info.dense_dims, layout_of(info));
  const Links links(graph);
  graph.tensor(id).dense_dims.clear();
  if (links.producer(id) >= 0 && links.consumers(id).empty()) {
    const Node& producer = graph.nodes[links.producer(id)];
    const TensorId inside = producer.inputs.empty() ? TensorId{} : producer.inputs[0];
    if (same_move(producer, move) && graph.tensor(inside).dims == info.dense_dims &&
        links.producer(inside) >= 0 && !links.is_output(inside)) {
      graph.nodes.erase(graph.nodes.begin() + links.producer(id));
      hand_name_on(editor, graph, id, inside, "blocks");
      return inside;
    }
  }
  const TensorId outside = editor.add_tensor(info.name + " dense", info.format, info.dense_dims);
  editor.add_node(info.name + " out of blocks", {}, {id}, {outside},
                  from_blocks(info.dense_dims, layout_of(info)));
  hand_name_on(editor, graph, id, outside, "blocks");
  return outside;
}

}  // namespace

bool is_edge_matrix(const Shape& dims) { return dims.size() >= 2 && element_count(dims) > 0; }

BlockLayout layout_of(const TensorInfo& tensor) {
  if (tensor.dense_dims.empty()) return {};
  return {tensor.dims[2], tensor.dims[3]};
}

Graph block_edges(Graph graph, const BlockLayout& layout) {
  if (!layout.blocked()) return graph;
  Editor editor(graph);
  const auto dense = [&](TensorId id) {
    return graph.tensor(id).dense_dims.empty() && is_edge_matrix(graph.tensor(id).dims);
  };
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const TensorId id = graph.inputs[i];
    if (dense(id)) block_input(editor, graph, id, layout);
  }
  std::map<TensorId, TensorId> blocked;
  for (TensorId& id : graph.outputs) {
    if (const auto found = blocked.find(id); found != blocked.end()) {
      id = found->second;
    } else if (dense(id)) {
      const TensorId outside = block_output(editor, graph, id, layout);
      blocked[id] = outside;
      id = outside;
    }
  }
  tidy(graph);
  drop_unused_tensors(graph);
  return graph;
}

Graph dense_edges(Graph graph) {
  Editor editor(graph);
  bool changed = false;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.tensor(graph.inputs[i]).dense_dims.empty()) continue;
    make_input_dense(editor, graph, i);
    changed = true;
  }
  std::map<TensorId, TensorId> made;
  for (TensorId& id : graph.outputs) {
    if (const auto found = made.find(id); found != made.end()) {
      id = found->second;
    } else if (!graph.tensor(id).dense_dims.empty()) {
      const TensorId outside = make_output_dense(editor, graph, id);
      made[id] = outside;
      id = outside;
    }
  }
  if (!changed && made.empty()) return graph;
  tidy(graph);
  drop_unused_tensors(graph);
  return graph;
}

}  // namespace tessera::graph
