#include "graph/surface_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/check.h"

namespace tessera::graph {
namespace {

// One axis of a node's iteration space: its extent and each operand's stride along it (0 where the
// operand is broadcast). The output is the last operand.
struct Axis {
  std::int64_t extent = 1;
  std::vector<std::int64_t> strides;
};

std::vector<std::int64_t> dense_strides(const Shape& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// The operand is walked in memory order across both axes.
bool can_merge(const Axis& outer, const Axis& inner) {
  for (std::size_t i = 0; i < outer.strides.size(); ++i) {
    if (outer.strides[i] != inner.strides[i] * inner.extent) return false;
  }
  return true;
}

// Fewer axes, until there are at most `limit`: first drops extents of 1, then merges neighbours.
// False if that is not possible.
bool reduce_axes(std::vector<Axis>& axes, std::size_t limit) {
  for (std::size_t i = 0; axes.size() > limit && i < axes.size();) {
    if (axes[i].extent == 1) {
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (std::size_t i = 0; axes.size() > limit && i + 1 < axes.size();) {
    if (can_merge(axes[i], axes[i + 1])) {
      axes[i].extent *= axes[i + 1].extent;
      axes[i].strides = axes[i + 1].strides;
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    } else {
      ++i;
    }
  }
  return axes.size() <= limit;
}

// A single axis longer than this is seen as rows and columns, so that a row fits in the buffer.
constexpr std::int64_t kLongRow = 16384;

// Splits a single long axis in two, the inner one as long as kLongRow allows. Element order stays.
void split_long_row(std::vector<Axis>& axes) {
  if (axes.size() != 1 || axes[0].extent <= kLongRow) return;
  const std::int64_t extent = axes[0].extent;
  std::int64_t columns = kLongRow;
  while (extent % columns != 0) --columns;
  if (columns < 64) return;  // many short rows are no better
  Axis rows = axes[0];
  rows.extent = extent / columns;
  for (std::int64_t& stride : rows.strides) stride *= columns;
  axes[0].extent = columns;
  axes.insert(axes.begin(), rows);
}

// Puts an axis at one of the four places of every operand's view.
void place(const Axis& axis, std::size_t where, NodeViews& views) {
  for (std::size_t i = 0; i < views.inputs.size(); ++i) {
    views.inputs[i].extents[where] = axis.extent;
    views.inputs[i].strides[where] = axis.strides[i];
  }
  views.output.extents[where] = axis.extent;
  views.output.strides[where] = axis.strides.back();
}

enum Place : std::size_t { kImages, kChannels, kRows, kColumns };

StridedView nchw(const Shape& dims) {
  TESSERA_CHECK(dims.size() == 4, "an image tensor of rank {}", dims.size());
  const std::vector<std::int64_t> strides = dense_strides(dims);
  StridedView view;
  for (std::size_t i = 0; i < 4; ++i) {
    view.extents[i] = dims[i];
    view.strides[i] = strides[i];
  }
  return view;
}

// ---- matrix product -----------------------------------------------------------------------------

std::int64_t leading_count(const Shape& dims) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 2 < dims.size(); ++i) count *= dims[i];
  return count;
}

// [images, M, K] seen as channels K, rows M.
StridedView moving_view(const Shape& dims) {
  const std::int64_t m = dims[dims.size() - 2];
  const std::int64_t k = dims[dims.size() - 1];
  return {.extents = {leading_count(dims), k, m, 1}, .strides = {m * k, 1, k, 1}};
}

// b as the moving operand, a as the stationary one: the product's transpose.
NodeViews swapped_matmul_views(const Graph& graph, const Node& node) {
  const Shape& a = graph.tensor(node.inputs[0]).dims;
  const Shape& b = graph.tensor(node.inputs[1]).dims;
  const std::int64_t m = a[a.size() - 2];
  const std::int64_t k = a[a.size() - 1];
  const std::int64_t n = b[b.size() - 1];
  const std::int64_t images = leading_count(a);
  const bool shared = b.size() == 2;
  NodeViews views;
  views.inputs.resize(node.inputs.size());
  views.inputs[0] = {.extents = {images, k, 1, m}, .strides = {m * k, 1, 0, k}};
  views.inputs[1] = {.extents = {images, k, n, 1}, .strides = {shared ? 0 : k * n, n, 1, 0}};
  views.output = {.extents = {images, m, n, 1}, .strides = {m * n, n, 1, 0}};
  return views;
}

NodeViews matmul_views(const Graph& graph, const Node& node) {
  const Shape& a = graph.tensor(node.inputs[0]).dims;
  const TensorInfo& b = graph.tensor(node.inputs[1]);
  NodeViews views;
  views.inputs.resize(node.inputs.size());
  views.inputs[0] = moving_view(a);
  views.output = moving_view(graph.tensor(node.outputs[0]).dims);
  if (b.constant == nullptr) {
    const std::int64_t k = b.dims[b.dims.size() - 2];
    const std::int64_t n = b.dims[b.dims.size() - 1];
    const bool shared = b.dims.size() == 2;
    views.inputs[1] = {.extents = {leading_count(a), k, 1, n},
                       .strides = {shared ? 0 : k * n, n, 0, 1}};
  }
  return views;
}

// ---- element-wise
// ---------------------------------------------------------------------------------

// The channel axis a node of a fixed layout wants for a tensor of this rank.
std::optional<std::size_t> fixed_channel_axis(const Node& node, std::size_t rank) {
  switch (node.kind()) {
    case NodeKind::kConv:
    case NodeKind::kPool:
      return 1;
    case NodeKind::kMatMul:
      return rank - 1;
    default:
      return std::nullopt;
  }
}

// Channels on axis `channel`: the axes in front become images (and rows, where channels are last),
// those behind become rows and columns.
std::optional<NodeViews> spread(const std::vector<Axis>& axes, std::size_t channel,
                                std::size_t input_count) {
  NodeViews views;
  views.inputs.resize(input_count);
  std::vector<Axis> front(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(channel));
  std::vector<Axis> back(axes.begin() + static_cast<std::ptrdiff_t>(channel) + 1, axes.end());
  place(axes[channel], kChannels, views);
  if (back.empty()) {
    if (front.size() > 2) {  // the last one is the matrix's row
      std::vector<Axis> images(front.begin(), front.end() - 1);
      const bool merged = reduce_axes(images, 1);
      if (merged) {
        images.push_back(front.back());
        front = images;
      }
    }
    if (!reduce_axes(front, 3)) return std::nullopt;
    if (front.size() == 1) place(front[0], kRows, views);
    if (front.size() >= 2) {
      place(front[0], kImages, views);
      place(front[1], kRows, views);
    }
    if (front.size() == 3) place(front[2], kColumns, views);
    return views;
  }
  if (!reduce_axes(front, 1) || !reduce_axes(back, 2)) return std::nullopt;
  split_long_row(back);
  if (front.size() == 1) place(front[0], kImages, views);
  if (back.size() == 2) place(back[0], kRows, views);
  if (!back.empty()) place(back.back(), kColumns, views);
  return views;
}

std::vector<Axis> broadcast_axes(const Graph& graph, const Node& node) {
  const Shape& out = graph.tensor(node.outputs[0]).dims;
  std::vector<Axis> axes(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) axes[i].extent = out[i];
  const auto add_operand = [&](const Shape& dims) {
    const std::vector<std::int64_t> strides = dense_strides(dims);
    TESSERA_CHECK(dims.size() <= out.size(), "operand of rank {} for an output of rank {}",
                  dims.size(), out.size());
    const std::size_t missing = out.size() - dims.size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      const bool repeated = i < missing || (dims[i - missing] == 1 && out[i] != 1);
      axes[i].strides.push_back(repeated ? 0 : strides[i - missing]);
    }
  };
  for (const TensorId id : node.inputs) add_operand(graph.tensor(id).dims);
  add_operand(out);
  if (axes.empty()) {
    axes.push_back({.extent = 1, .strides = std::vector<std::int64_t>(node.inputs.size() + 1, 1)});
  }
  return axes;
}

Error cannot_spread(const Node& node) {
  return {ErrorCode::kUnsupported,
          fmt::format("node '{}': its axes cannot be seen as images, channels, rows and columns",
                      node.name)};
}

Result<NodeViews> elementwise_views(const PreferredAxes& axes_of, const Node& node,
                                    const ViewChoice& choice) {
  const Graph& graph = axes_of.graph();
  const std::vector<Axis> axes = broadcast_axes(graph, node);
  const std::size_t rank = axes.size();
  if (choice.channel_axis >= 0) {
    const auto channel = static_cast<std::size_t>(choice.channel_axis);
    if (channel >= rank) return cannot_spread(node);
    if (auto views = spread(axes, channel, node.inputs.size())) return *views;
    return cannot_spread(node);
  }
  std::vector<std::size_t> candidates = {std::min(axes_of.channel_axis(node), rank - 1)};
  if (rank > 1) candidates.push_back(1);
  for (std::size_t i = rank; i-- > 0;) candidates.push_back(i);
  for (const std::size_t channel : candidates) {
    if (auto views = spread(axes, channel, node.inputs.size())) return *views;
  }
  // The channels as all axes that are walked as one, not as one axis of them.
  std::vector<Axis> merged = axes;
  reduce_axes(merged, 1);
  for (std::size_t channel = 0; channel < merged.size(); ++channel) {
    if (auto views = spread(merged, channel, node.inputs.size())) return *views;
  }
  return cannot_spread(node);
}

// ---- reduction
// ------------------------------------------------------------------------------------

Result<NodeViews> reduce_views(const Graph& graph, const Node& node, const ViewChoice& choice) {
  const auto& attributes = node.as<ReduceAttributes>();
  const Shape& in = graph.tensor(node.inputs[0]).dims;
  const std::vector<std::int64_t> in_strides = dense_strides(in);
  const auto is_reduced = [&](std::size_t axis) {
    return std::find(attributes.axes.begin(), attributes.axes.end(),
                     static_cast<std::int64_t>(axis)) != attributes.axes.end();
  };
  Shape out = in;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_reduced(i)) out[i] = 1;
  }
  const std::vector<std::int64_t> out_strides = dense_strides(out);
  std::vector<Axis> kept;
  std::optional<Axis> chosen;
  std::vector<Axis> reduced;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (is_reduced(i)) {
      reduced.push_back({.extent = in[i], .strides = {in_strides[i], 0}});
    } else {
      kept.push_back({.extent = in[i], .strides = {in_strides[i], out_strides[i]}});
      if (choice.channel_axis == static_cast<std::int32_t>(i)) {
        chosen = kept.back();
        kept.pop_back();
      }
    }
  }
  if (choice.channel_axis >= 0) {
    if (!chosen || !reduce_axes(kept, 1)) return cannot_spread(node);
    kept.push_back(*chosen);
  }
  if (!reduce_axes(kept, 2) || !reduce_axes(reduced, 2)) return cannot_spread(node);
  NodeViews views;
  views.inputs.resize(1);
  const bool in_rows = choice.channel_axis >= 0 && reduced.size() == 1 && kept.size() == 2;
  if (kept.size() == 2) place(kept[0], in_rows ? kRows : kImages, views);
  if (!kept.empty()) place(kept.back(), kChannels, views);
  if (reduced.size() == 2) place(reduced[0], kRows, views);
  if (!reduced.empty()) place(reduced.back(), kColumns, views);
  if (!in_rows) views.output.extents[kRows] = 1;
  views.output.extents[kColumns] = 1;
  return views;
}

}  // namespace

PreferredAxes::PreferredAxes(const Graph& graph)
    : graph_(&graph),
      producers_(graph.tensors.size(), -1),
      readers_(graph.tensors.size(), -1),
      upwards_(graph.nodes.size(), kNone),
      downwards_(graph.nodes.size(), kNone) {
  const auto count = static_cast<NodeIndex>(graph.nodes.size());
  for (NodeIndex i = count; i-- > 0;) {
    for (const TensorId id : graph.nodes[i].inputs) readers_[id] = i;
    for (const TensorId id : graph.nodes[i].outputs) producers_[id] = i;
  }
  // Nodes stand behind what they read.
  for (NodeIndex i = 0; i < count; ++i) {
    const Node& node = graph.nodes[i];
    if (node.kind() == NodeKind::kElementwise) upwards_[i] = axis_above(node, rank_of(node));
  }
  for (NodeIndex i = count; i-- > 0;) {
    const Node& node = graph.nodes[i];
    if (node.kind() == NodeKind::kElementwise) downwards_[i] = axis_below(node, rank_of(node));
  }
}

std::size_t PreferredAxes::rank_of(const Node& node) const {
  return graph_->tensor(node.outputs[0]).dims.size();
}

// Of the first of the tensors that is of this rank and has a neighbour: the axis which that one fixes,
// or which is known of it.
std::int32_t PreferredAxes::follow(const std::vector<TensorId>& edges, std::size_t rank,
                                   const Table<TensorId, NodeIndex>& neighbours,
                                   const Table<NodeIndex, std::int32_t>& known) const {
  for (const TensorId id : edges) {
    const NodeIndex next = neighbours[id];
    if (graph_->tensor(id).dims.size() != rank || next < 0) continue;
    const Node& node = graph_->nodes[next];
    if (const auto axis = fixed_channel_axis(node, rank)) return static_cast<std::int32_t>(*axis);
    // A broadcast to a higher rank ends the search.
    const bool passes = node.kind() == NodeKind::kElementwise && rank_of(node) == rank;
    return passes ? known[next] : kNone;
  }
  return kNone;
}

std::int32_t PreferredAxes::axis_above(const Node& node, std::size_t rank) const {
  return follow(node.inputs, rank, producers_, upwards_);
}

std::int32_t PreferredAxes::axis_below(const Node& node, std::size_t rank) const {
  return follow(node.outputs, rank, readers_, downwards_);
}

std::size_t PreferredAxes::channel_axis(const Node& node) const {
  std::size_t rank = rank_of(node);
  if (const std::int32_t axis = axis_above(node, rank); axis != kNone) {
    return static_cast<std::size_t>(axis);
  }
  if (const std::int32_t axis = axis_below(node, rank); axis != kNone) {
    return static_cast<std::size_t>(axis);
  }
  rank = std::max<std::size_t>(rank, 1);
  return rank == 3 || rank == 4 ? 1 : rank - 1;
}

Result<NodeViews> node_views(const Graph& graph, const Node& node, const ViewChoice& choice) {
  return node_views(PreferredAxes(graph), node, choice);
}

namespace {

// A convolution of images of one row, each pixel by itself: images may as well be rows of one image,
// which the array takes many of at a time.
bool takes_rows_apart(const Graph& graph, const Node& node) {
  const auto& conv = node.as<ConvAttributes>();
  const Shape& x = graph.tensor(node.inputs[0]).dims;
  const Shape& kernel = graph.tensor(node.inputs[1]).dims;
  const Shape& y = graph.tensor(node.outputs[0]).dims;
  return x[0] > 1 && x[2] == 1 && y[2] == 1 && y[3] == x[3] && kernel[2] == 1 && kernel[3] == 1 &&
         conv.stride_h == 1 && conv.stride_w == 1 && conv.pad_top == 0 && conv.pad_left == 0 &&
         conv.input_dilation_h == 1 && conv.input_dilation_w == 1;
}

StridedView images_as_rows(StridedView view) {
  std::swap(view.extents[kImages], view.extents[kRows]);
  std::swap(view.strides[kImages], view.strides[kRows]);
  view.strides[kImages] = 0;
  return view;
}

}  // namespace

Result<NodeViews> node_views(const PreferredAxes& axes, const Node& node,
                             const ViewChoice& choice) {
  const Graph& graph = axes.graph();
  switch (node.kind()) {
    case NodeKind::kConv:
    case NodeKind::kPool: {
      const bool rows = node.kind() == NodeKind::kConv && takes_rows_apart(graph, node);
      const auto view_of = [&](TensorId id) {
        const StridedView view = nchw(graph.tensor(id).dims);
        return rows ? images_as_rows(view) : view;
      };
      NodeViews views;
      views.inputs.resize(node.inputs.size());
      views.inputs[0] = view_of(node.inputs[0]);
      views.output = view_of(node.outputs[0]);
      return views;
    }
    case NodeKind::kMatMul:
      return choice.swapped ? swapped_matmul_views(graph, node) : matmul_views(graph, node);
    case NodeKind::kElementwise:
      return elementwise_views(axes, node, choice);
    case NodeKind::kReduce:
      return reduce_views(graph, node, choice);
    case NodeKind::kMove:
    case NodeKind::kHostStep:
      break;
  }
  return Error{ErrorCode::kUnsupported, fmt::format("node '{}' ({}) has no surface views",
                                                    node.name, node_kind_name(node.kind()))};
}

}  // namespace tessera::graph
