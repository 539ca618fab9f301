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
        made_(inputs.graph.tensors.size(), -1),
        owns_(inputs.graph.tensors.size(), false) {
    Table<NodeIndex, LayerIndex> layers(inputs.graph.nodes.size(), -1);
    for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
      const PlannedLayer& layer = inputs.layers[i];
      if (layer.node >= 0) layers[layer.node] = static_cast<LayerIndex>(i);
    }
    for (std::size_t i = 0; i < inputs.graph.nodes.size(); ++i) {
      const Node& node = inputs.graph.nodes[i];
      const auto index = static_cast<NodeIndex>(i);
      LayerIndex made = layers[index];
      if (node.kind() == NodeKind::kMove) {
        made = -1;
        for (const TensorId id : node.inputs) made = std::max(made, made_[id]);
      }
      for (const TensorId id : node.outputs) {
        producers_[id] = index;
        made_[id] = made;
      }
    }
    for (const Storage& storage : inputs.storages.storages) {
      if (storage.owner.valid()) owns_[storage.owner] = true;
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
      const LayerIndex last = made_[whole.owner];
      for (const TensorId id : concatenation->inputs) {
        const bool within = storages.places[id].storage == index;
        if (within && made_[id] >= 0 && made_[id] < last - kFarLayers) parts.insert(owner(id));
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

  // What a Move of one box is a view of.
  TensorId owner(TensorId id) const {
    const Node* move = move_of(id);
    while (!owns_[id] && move != nullptr && move->as<MoveAttributes>().copies.size() == 1) {
      id = move->inputs[static_cast<std::size_t>(move->as<MoveAttributes>().copies[0].input)];
      move = move_of(id);
    }
    return id;
  }

  const PlanInputs& inputs_;
  const Plan& plan_;
  Table<TensorId, NodeIndex> producers_;
  // The last layer that makes some of it, Moves' inputs followed; -1: there from the beginning.
  Table<TensorId, LayerIndex> made_;
  Table<TensorId, bool> owns_;  // a storage
};

}  // namespace

TensorSet far_parts(const PlanInputs& inputs, const Plan& plan) {
  return FarParts(inputs, plan).find();
}

}  // namespace tessera::compile
