#include "network/card_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "isa/card_traffic.h"

namespace tessera::network {
namespace {

using compile::HandOver;
using compile::ShareWay;
using graph::Graph;
using graph::Node;
using graph::NodeIndex;
using graph::TensorId;

bool along_surface(ShareWay way) {
  return way == ShareWay::kRows || way == ShareWay::kColumns || way == ShareWay::kImages;
}

// Whether a result needs more than the place of the input where it lies.
bool has_window(const Graph& graph, const Node& node) {
  if (node.kind() == graph::NodeKind::kPool) {
    const auto& pool = node.as<graph::PoolAttributes>();
    return pool.window_h > 1 || pool.window_w > 1 || pool.stride_h > 1 || pool.stride_w > 1;
  }
  if (node.kind() != graph::NodeKind::kConv) return false;
  const auto& conv = node.as<graph::ConvAttributes>();
  const Shape& weights = graph.tensor(node.inputs[1]).dims;
  return weights[2] > 1 || weights[3] > 1 || conv.stride_h > 1 || conv.stride_w > 1;
}

// Whether a result needs all channels of the input.
bool sums_channels(const Node& node) {
  if (node.kind() == graph::NodeKind::kMatMul) return true;
  return node.kind() == graph::NodeKind::kConv && !node.as<graph::ConvAttributes>().channel_wise;
}

enum class Movement {
  kNone,
  kOwnPart,
  kEdges,
  kFromOneCore,
  kGather,
  kForward,
  kForwardAndBroadcast,
};
const char* movement_name(Movement movement) {
  switch (movement) {
    case Movement::kOwnPart:
      return "own part";
    case Movement::kEdges:
      return "edges";
    case Movement::kFromOneCore:
      return "from one core";
    case Movement::kGather:
      return "gather";
    case Movement::kForward:
      return "full forward";
    case Movement::kForwardAndBroadcast:
      return "full forward, full broadcast";
    case Movement::kNone:
      break;
  }
  return "";
}

// Of the first operand of `node`, cut `way`, behind something that was cut `before`.
Movement movement_of(const Graph& graph, const Node& node, ShareWay way, ShareWay before) {
  if (way == ShareWay::kOneCore) {
    return before == ShareWay::kOneCore ? Movement::kOwnPart : Movement::kGather;
  }
  if (before == ShareWay::kOneCore) return Movement::kFromOneCore;
  if (along_surface(way)) {
    if (way != before) return Movement::kForward;
    return has_window(graph, node) ? Movement::kEdges : Movement::kOwnPart;
  }
  if (way == ShareWay::kGrid) {
    if (way != before || sums_channels(node)) return Movement::kForward;
    return has_window(graph, node) ? Movement::kEdges : Movement::kOwnPart;
  }
  if (way != ShareWay::kChannels) return Movement::kForward;  // copies, transpositions
  if (sums_channels(node)) return Movement::kForwardAndBroadcast;
  return before == ShareWay::kChannels ? Movement::kOwnPart : Movement::kForward;
}

// The other operand of a product, each of whose columns makes an output channel.
Movement stationary_movement(ShareWay way, ShareWay before) {
  if (way == ShareWay::kOneCore) {
    return before == ShareWay::kOneCore ? Movement::kOwnPart : Movement::kGather;
  }
  if (along_surface(way)) return Movement::kForwardAndBroadcast;
  return before == ShareWay::kChannels ? Movement::kOwnPart : Movement::kForward;
}

class Splits {
 public:
  Splits(const Graph& graph, const compile::SharedProgram& shared)
      : graph_(graph),
        shared_(shared),
        ways_(graph.nodes.size(), ShareWay::kNone),
        hand_overs_(graph.nodes.size(), HandOver::kNothing),
        makers_(graph.tensors.size(), -1) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      for (const TensorId output : graph.nodes[i].outputs) {
        makers_[position_of(output)] = static_cast<NodeIndex>(i);
      }
    }
  }

  std::vector<LayerSplit> run() {
    std::vector<LayerSplit> splits;
    NodeIndex last = -1;
    for (const compile::LayerShare& layer : shared_.layers) {
      LayerSplit& split = splits.emplace_back();
      split.way = compile::share_way_name(layer.way);
      split.cores = layer.cores;
      split.reason = layer.reason;
      if (layer.node < 0) continue;
      const auto at = static_cast<std::size_t>(layer.node);
      if (layer.way != ShareWay::kNone) {
        describe(layer, layer.node == last ? ways_[at] : ShareWay::kNone, split);
      }
      ways_[at] = layer.way;
      hand_overs_[at] = layer.hand_over;
      last = layer.node;
    }
    return splits;
  }

 private:
  // `first`: how an earlier layer of the same node was cut, whose results this one reads; or kNone.
  void describe(const compile::LayerShare& layer, ShareWay first, LayerSplit& split) const {
    const Node& node = graph_.nodes[static_cast<std::size_t>(layer.node)];
    if (layer.way == ShareWay::kHost) return;
    Movement most = Movement::kNone;
    HandOver apart = HandOver::kStays;
    std::set<std::string> before;
    const bool product =
        node.kind() == graph::NodeKind::kConv || node.kind() == graph::NodeKind::kMatMul;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const graph::TensorInfo& tensor = graph_.tensor(node.inputs[i]);
      if (tensor.constant != nullptr) {
        if (product && i == 1) {
          split.weights = along_surface(layer.way) ? "full broadcast" : "own part";
        }
        continue;
      }
      std::set<ShareWay> ways;
      if (first != ShareWay::kNone && i == 0) {
        ways.insert(first);
      } else {
        add_ways(node.inputs[i], ways);
      }
      if (ways.empty()) before.insert("input");
      for (const ShareWay way : ways) {
        before.insert(compile::share_way_name(way));
        if (way == ShareWay::kHost) continue;  // the host writes into every memory
        const Movement movement = product && i == 1 ? stationary_movement(layer.way, way)
                                                    : movement_of(graph_, node, layer.way, way);
        most = std::max(most, movement);
        if (layer.cores > 1 && may_stay(movement)) {
          if (const auto why = why_apart(node.inputs[i])) apart = *why;
        }
      }
    }
    split.before.assign(before.begin(), before.end());
    split.movement = movement_name(most);
    if (apart != HandOver::kStays && may_stay(most)) {
      split.movement += fmt::format(" through memory ({})", compile::hand_over_name(apart));
    }
  }

  static bool may_stay(Movement movement) {
    return movement == Movement::kEdges || movement == Movement::kOwnPart;
  }

  // Why the tensor does not stay in the buffers of the cores that made it; none where it does, or no
  // core made it. Views are looked through.
  std::optional<HandOver> why_apart(TensorId tensor) const {
    const NodeIndex maker = makers_[position_of(tensor)];
    if (maker < 0) return std::nullopt;
    const auto at = static_cast<std::size_t>(maker);
    if (ways_[at] != ShareWay::kNone) {
      const HandOver found = hand_overs_[at];
      const bool known = found != HandOver::kStays && found != HandOver::kNothing;
      return known ? std::optional(found) : std::nullopt;
    }
    for (const TensorId input : graph_.nodes[at].inputs) {
      if (const auto why = why_apart(input)) return why;
    }
    return std::nullopt;
  }

  // Of the layers that made the tensor; views are looked through.
  void add_ways(TensorId tensor, std::set<ShareWay>& ways) const {
    const NodeIndex maker = makers_[position_of(tensor)];
    if (maker < 0) return;
    const ShareWay way = ways_[static_cast<std::size_t>(maker)];
    if (way != ShareWay::kNone) {
      ways.insert(way);
      return;
    }
    for (const TensorId input : graph_.nodes[static_cast<std::size_t>(maker)].inputs) {
      add_ways(input, ways);
    }
  }

  const Graph& graph_;
  const compile::SharedProgram& shared_;
  std::vector<ShareWay> ways_;  // of each node's last layer so far
  std::vector<HandOver> hand_overs_;
  std::vector<NodeIndex> makers_;  // of each tensor
};

}  // namespace

std::vector<LayerSplit> layer_splits(const Graph& graph, const ChipConfig& chip,
                                     const CardPlacement& placement,
                                     const compile::SharedProgram& shared) {
  std::vector<LayerSplit> splits = Splits(graph, shared).run();
  const std::vector<isa::LayerTraffic> traffic =
      isa::layer_traffic(shared.card, placement, chip, splits.size());
  for (std::size_t i = 0; i < splits.size(); ++i) {
    splits[i].dram_bytes_read = traffic[i].read;
    splits[i].dram_bytes_written = traffic[i].written;
    splits[i].merged_bytes = traffic[i].merged;
    splits[i].ring_bytes = traffic[i].ring;
    splits[i].network_bytes = traffic[i].network;
  }
  return splits;
}

}  // namespace tessera::network
