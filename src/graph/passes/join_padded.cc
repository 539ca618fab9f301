// A Move that reads what another one padded, or what a concatenation of padded tensors is, becomes one Move
// with the padding of both, so that nothing is padded in memory to be moved again.
//
//   x ─► Move (box, fill) ─┐
//                          ├─► Move (boxes) ─► Move (boxes)     =>     x, y ─► Move (boxes, fill)
//   y ─────────────────────┘
//
// Boxes meet axis by axis of the tensor between them. Where they do not lie along its axes they are left
// alone, and so is what others read too.
//
// Before and after: any graph whose formats are settled. Values: none changes.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "graph/editor.h"
#include "graph/move_box.h"
#include "graph/passes/passes.h"

namespace tessera::graph {

namespace {

constexpr std::size_t kJoinedBoxesMax = 32;

// Elements of one axis that a box touches, `count` from `first` on, and how far apart they lie on the
// box's other side.
struct Touched {
  std::int64_t first = 0, step = 1, count = 1;
  std::int64_t other = 0;
};

// A box by the axes of the tensor on one of its sides.
struct AxisBox {
  std::int64_t other_offset = 0;
  std::vector<Touched> axes;
};

// One side of a box: the tensor's, and the other.
struct Sides {
  std::int64_t offset = 0, other_offset = 0;
  std::vector<std::int64_t> extents, strides, other;
};

// Takes an axis of the box apart where it goes on from one line of the tensor to the next.
bool touch(const Shape& dims, const std::vector<std::int64_t>& pitches, std::int64_t extent,
           std::int64_t stride, std::int64_t other, std::vector<Touched>& axes) {
  if (extent == 1) return true;
  if (stride <= 0) return false;
  std::size_t axis = 0;
  while (axis + 1 < dims.size() && (dims[axis] == 1 || pitches[axis] > stride)) ++axis;
  if (stride % pitches[axis] != 0 || dims[axis] == 1) return false;
  Touched& touched = axes[axis];
  if (touched.count != 1) return false;
  const std::int64_t step = stride / pitches[axis];
  if (touched.first + step * (extent - 1) < dims[axis]) {
    touched.step = step;
    touched.count = extent;
    touched.other = other;
    return true;
  }
  if (step != 1 || touched.first != 0 || extent % dims[axis] != 0) return false;
  touched.count = dims[axis];
  touched.other = other;
  return touch(dims, pitches, extent / dims[axis], stride * dims[axis], other * dims[axis], axes);
}

std::optional<AxisBox> by_axes(const Shape& dims, const Sides& box) {
  const std::vector<std::int64_t> pitches = row_major_strides(dims);
  AxisBox found{box.other_offset, std::vector<Touched>(dims.size())};
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    found.axes[axis].first = box.offset / pitches[axis] % dims[axis];
  }
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    if (!touch(dims, pitches, box.extents[i], box.strides[i], box.other[i], found.axes)) {
      return std::nullopt;
    }
  }
  return found;
}

// What both touch of one axis: the first of it for each, and how many of its own each goes on by.
struct Meeting {
  std::int64_t count = 0;
  std::int64_t a = 0, b = 0;
  std::int64_t a_step = 1, b_step = 1;
};

// None where the steps of both are longer than one and differ.
std::optional<Meeting> meet(const Touched& a, const Touched& b) {
  // The elements of the one that is alone or has longer steps, as far as the other has them.
  const bool a_leads = a.count == 1 || (b.count > 1 && a.step >= b.step);
  const Touched& lead = a_leads ? a : b;
  const Touched& mate = a_leads ? b : a;
  if (lead.count > 1 && mate.step != 1 && mate.step != lead.step) return std::nullopt;
  Meeting found;
  for (std::int64_t i = 0; i < lead.count; ++i) {
    const std::int64_t distance = lead.first + i * lead.step - mate.first;
    if (distance < 0 || distance % mate.step != 0 || distance / mate.step >= mate.count) continue;
    if (found.count == 0) {
      found.a = a_leads ? i : distance / mate.step;
      found.b = a_leads ? distance / mate.step : i;
    }
    ++found.count;
  }
  (a_leads ? found.b_step : found.a_step) = std::max<std::int64_t>(1, lead.step / mate.step);
  return found;
}

// What `second` reads of what `first` wrote, added to `boxes` if that is anything. False where they do not
// meet axis by axis.
bool add_joined(const AxisBox& first, std::int32_t input, const AxisBox& second,
                std::vector<CopyBox>& boxes) {
  CopyBox box;
  box.input = input;
  box.input_offset = first.other_offset;
  box.output_offset = second.other_offset;
  for (std::size_t axis = 0; axis < first.axes.size(); ++axis) {
    const auto met = meet(first.axes[axis], second.axes[axis]);
    if (!met) return false;
    if (met->count == 0) return true;
    box.input_offset += met->a * first.axes[axis].other;
    box.output_offset += met->b * second.axes[axis].other;
    box.extents.push_back(met->count);
    box.input_strides.push_back(met->a_step * first.axes[axis].other);
    box.output_strides.push_back(met->b_step * second.axes[axis].other);
  }
  boxes.push_back(simplified(box));
  return true;
}

bool has_padding(const Graph& graph, const Links& links, const Node& node) {
  if (node.as<MoveAttributes>().has_fill) return true;
  return std::ranges::any_of(node.inputs, [&](TensorId input) {
    const NodeIndex producer = links.producer(input);
    return producer >= 0 && links.has_single_use(input) &&
           graph.nodes[producer].kind() == NodeKind::kMove &&
           graph.nodes[producer].as<MoveAttributes>().has_fill;
  });
}

// Input `i` of `node` is what another Move made for it alone: the node reads what that one reads.
bool join_producer(Graph& graph, LiveLinks& links, NodeIndex index, std::size_t i) {
  Node& node = graph.nodes[index];
  const TensorId between = node.inputs[i];
  const NodeIndex producer = links.producer(between);
  if (producer < 0 || !links.has_single_use(between)) return false;
  Node& first = graph.nodes[producer];
  if (first.kind() != NodeKind::kMove || !has_padding(graph, links, first)) return false;
  const auto& made = first.as<MoveAttributes>();
  auto move = node.as<MoveAttributes>();
  if (made.has_fill && move.has_fill && made.fill != move.fill) return false;
  const Shape& dims = graph.tensor(between).dims;
  std::vector<CopyBox> copies;
  for (const CopyBox& reads : move.copies) {
    if (reads.input != static_cast<std::int32_t>(i)) {
      copies.push_back(reads);
      continue;
    }
    const auto read = by_axes(dims, {reads.input_offset, reads.output_offset, reads.extents,
                                     reads.input_strides, reads.output_strides});
    if (!read) return false;
    for (const CopyBox& writes : made.copies) {
      const auto written = by_axes(dims, {writes.output_offset, writes.input_offset, writes.extents,
                                          writes.output_strides, writes.input_strides});
      const auto input = static_cast<std::int32_t>(node.inputs.size()) + writes.input;
      if (!written || !add_joined(*written, input, *read, copies)) return false;
    }
  }
  if (copies.empty() || copies.size() > kJoinedBoxesMax) return false;
  if (made.has_fill) {
    move.has_fill = true;
    move.fill = made.fill;
  }
  std::vector<TensorId> inputs = node.inputs;
  inputs.insert(inputs.end(), first.inputs.begin(), first.inputs.end());
  node.inputs = inputs_read(inputs, copies);
  move.copies = std::move(copies);
  node.attributes = std::move(move);
  add_origins(node.origins, first.origins);
  first.inputs.clear();  // nobody reads it any more
  links.update(graph, producer);
  links.update(graph, index);
  return true;
}

}  // namespace

void join_padded(Graph& graph) {
  LiveLinks links(graph);
  for (NodeIndex index = 0; index < static_cast<NodeIndex>(graph.nodes.size()); ++index) {
    if (graph.nodes[index].kind() != NodeKind::kMove) continue;
    // What is joined may read another one that can be.
    for (std::size_t i = 0; i < graph.nodes[index].inputs.size();) {
      i = join_producer(graph, links, index, i) ? 0 : i + 1;
    }
  }
  tidy(graph);
  drop_unused_tensors(graph);
}

}  // namespace tessera::graph
