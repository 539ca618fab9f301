#include "compile/far_parts.h"

#include <algorithm>
#include <cstdint>

namespace tessera::compile {
namespace {

using graph::MoveAttributes;
using graph::Node;
using graph::NodeIndex;
using graph::NodeKind;
using graph::TensorId;

constexpr std::int32_t kFarLayers = 4;  // between a part's layer and the last of the whole

// A smaller whole takes hardly any time on its way through memory.
constexpr std::int64_t kWholeBytesMin = std::int64_t{64} << 10;

class FarParts {
 public:
  FarParts(const PlanInputs& inputs, const Plan& plan)
      : inputs_(inputs),
        plan_(plan),
        producers_(inputs.graph.tensors.size(), -1),
        layers_(inputs.graph.nodes.size(), -1) {
    for (std::size_t i = 0; i < inputs.graph.nodes.size(); ++i) {
      for (const TensorId id : inputs.graph.nodes[i].outputs) {
        producers_[id] = static_cast<NodeIndex>(i);
      }
    }
    for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
      const PlannedLayer& layer = inputs.layers[i];
      if (layer.node >= 0) layers_[layer.node] = static_cast<LayerIndex>(i);
    }
  }

  TensorSet find() const {
    TensorSet parts;
    const StoragePlan& storages = inputs_.storages;
    for (std::size_t i = 0; i < storages.storages.size(); ++i) {
      const Storage& whole = storages.storages[i];
      const auto index = static_cast<StorageIndex>(i);
      if (plan_.homes[index] < 0 || !may_stay(whole)) continue;
      const Node* const concatenation = move_of(whole.owner);
      if (concatenation == nullptr || concatenation->inputs.size() < 2) continue;
      LayerIndex last = -1;
      for (const TensorId id : concatenation->inputs) last = std::max(last, made_by(id));
      for (const TensorId id : concatenation->inputs) {
        const bool within = storages.places[id].storage == index;
        if (within && made_by(id) >= 0 && made_by(id) < last - kFarLayers) parts.insert(owner(id));
      }
    }
    return parts;
  }

 private:
  bool may_stay(const Storage& whole) const {
    const auto& room = inputs_.chip.state_buffer;
    const std::int64_t bytes = std::int64_t{room.partitions} * room.bytes_per_partition;
    return whole.base == isa::BaseIndex::kWorkspace && whole.bytes() >= kWholeBytesMin &&
           whole.bytes() <= bytes / 4 * 3;
  }

  // The Move that makes a tensor, or null.
  const Node* move_of(TensorId id) const {
    const NodeIndex node = producers_[id];
    if (node < 0 || inputs_.graph.nodes[node].kind() != NodeKind::kMove) return nullptr;
    return &inputs_.graph.nodes[node];
  }

  // The last layer that makes some of it, Moves' inputs followed; -1: there from the beginning.
  LayerIndex made_by(TensorId id) const {
    const NodeIndex node = producers_[id];
    if (node < 0) return -1;
    const Node* const move = move_of(id);
    if (move == nullptr) return layers_[node];
    LayerIndex last = -1;
    for (const TensorId input : move->inputs) last = std::max(last, made_by(input));
    return last;
  }

  // What a Move of one box is a view of.
  TensorId owner(TensorId id) const {
    const Node* move = move_of(id);
    while (move != nullptr && move->as<MoveAttributes>().copies.size() == 1) {
      id = move->inputs[static_cast<std::size_t>(move->as<MoveAttributes>().copies[0].input)];
      move = move_of(id);
    }
    return id;
  }

  const PlanInputs& inputs_;
  const Plan& plan_;
  Table<TensorId, NodeIndex> producers_;
  Table<NodeIndex, LayerIndex> layers_;
};

}  // namespace

TensorSet far_parts(const PlanInputs& inputs, const Plan& plan) {
  return FarParts(inputs, plan).find();
}

}  // namespace tessera::compile
