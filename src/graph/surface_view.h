// How a node's operands are seen as [images, channels, rows, columns]: the one place that decides
// which axis of each tensor lies on partitions. The compiler and the host device both use it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace tessera::graph {

// A tensor (or a broadcast of it) as four axes over its dense row-major storage, in elements.
// Broadcast axes have stride 0.
struct StridedView {
  std::array<std::int64_t, 4> extents = {1, 1, 1, 1};  // images, channels, rows, columns
  std::array<std::int64_t, 4> strides = {0, 0, 0, 0};
  friend bool operator==(const StridedView&, const StridedView&) = default;
};

// Views of a processor node's operands, in the order of node.inputs, and of its output.
//   Conv:        x and output as NCHW; weights and bias have default views (they are kernel images)
//   MatMul:      a: images = leading axes, channels = K, rows = M, columns = 1; constant b: default
//                view; dynamic b: images, channels = K, rows = 1, columns = N;
//                output: images, channels = N, rows = M, columns = 1
//   Pool:        NCHW
//   Elementwise: axes of equal broadcast behaviour are merged, then spread over the four axes; the
//                channel axis is the one the tensor's producer and users prefer (NCHW channels for
//                rank 4 and 3, the last axis otherwise)
//   Reduce:      reduced axes become rows and columns, kept axes channels and images; where a choice
//                names the channels and a single axis is reduced, kept axes become channels and rows
// A single long axis in place of an element-wise node's rows and columns is split in two, so that a
// row fits in the buffer.
// An error (unsupported) names the node when its axes cannot be spread over four; of a graph that
// was built there is none, because the pass arrange_axes puts Moves in front.
//
// A choice asks for other axes on partitions than these; it never changes a bit.
struct ViewChoice {
  std::int32_t channel_axis = -1;  // Elementwise: axis of the output, Reduce: of the input
  bool swapped = false;  // MatMul, dynamic b: (a x b)^T = b^T x a^T, so that M is channels
  friend bool operator==(const ViewChoice&, const ViewChoice&) = default;
};
struct NodeViews {
  std::vector<StridedView> inputs;
  StridedView output;
};

// The channel axes that a graph's element-wise nodes take by default: those that the nodes of a fixed
// layout around them want. Found for all nodes at once, in time linear in the graph. The graph outlives
// it and does not change.
class PreferredAxes {
 public:
  explicit PreferredAxes(const Graph& graph);
  const Graph& graph() const { return *graph_; }
  // Of an element-wise node, one of the graph's or one that reads its tensors.
  std::size_t channel_axis(const Node& node) const;

 private:
  static constexpr std::int32_t kNone = -1;
  std::size_t rank_of(const Node& node) const;
  std::int32_t axis_above(const Node& node, std::size_t rank) const;
  std::int32_t axis_below(const Node& node, std::size_t rank) const;
  std::int32_t follow(const std::vector<TensorId>& edges, std::size_t rank,
                      const Table<TensorId, NodeIndex>& neighbours,
                      const Table<NodeIndex, std::int32_t>& known) const;

  const Graph* graph_;
  Table<TensorId, NodeIndex> producers_, readers_;  // the first reader; -1: none
  // Of each element-wise node, the axis that is fixed above and below it.
  Table<NodeIndex, std::int32_t> upwards_, downwards_;
};

Result<NodeViews> node_views(const PreferredAxes& axes, const Node& node,
                             const ViewChoice& choice = {});
// For a single node: it looks at the whole graph.
Result<NodeViews> node_views(const Graph& graph, const Node& node, const ViewChoice& choice = {});

}  // namespace tessera::graph
