#include "concord/fold/compact.h"

#include <algorithm>
#include <utility>

namespace tessera::concord {
namespace {

// Every place in which a software names a value.
template <typename Visit>
void for_each_name(std::vector<Operation>& operations, const Visit& visit) {
  const auto all = [&](std::vector<ValueId>& ids) { std::for_each(ids.begin(), ids.end(), visit); };
  for (Operation& operation : operations) {
    all(operation.inputs);
    all(operation.outputs);
    if (operation.repeat == nullptr) continue;
    Repeat repeat = *operation.repeat;
    for (std::vector<ValueId>* ids : {&repeat.carried, &repeat.next, &repeat.given, &repeat.kept}) {
      all(*ids);
    }
    for_each_name(repeat.body, visit);
    operation.repeat = std::make_shared<const Repeat>(std::move(repeat));
  }
}

void renumber_values(Software& software) {
  Table<ValueId, bool> named(software.values.size(), false);
  const auto mark = [&](ValueId& id) { named[id] = true; };
  for_each_name(software.operations, mark);
  for (Port& port : software.inputs) mark(port.value);
  for (Port& port : software.outputs) mark(port.value);
  Table<ValueId, ValueId> now(software.values.size());
  std::vector<Value> kept;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (!named[i]) continue;
    now[i].value = static_cast<std::int32_t>(kept.size());
    kept.push_back(std::move(software.values[i]));
  }
  software.values = std::move(kept);
  const auto rename = [&](ValueId& id) { id = now[id]; };
  for_each_name(software.operations, rename);
  for (Port& port : software.inputs) rename(port.value);
  for (Port& port : software.outputs) rename(port.value);
  for (Layer& layer : software.layers) {
    if (layer.result.valid()) rename(layer.result);
  }
}

Table<LayerIndex, bool> layers_with_operations(const Software& software, std::size_t layers) {
  Table<LayerIndex, bool> result(layers, false);
  for_each_operation(software.operations, [&](const Operation& operation) {
    if (operation.layer >= 0) result[operation.layer] = true;
  });
  return result;
}

void relabel(std::vector<Operation>& operations, const Table<LayerIndex, LayerIndex>& now) {
  for (Operation& operation : operations) {
    if (operation.layer >= 0) operation.layer = now[operation.layer];
    if (operation.repeat == nullptr) continue;
    Repeat repeat = *operation.repeat;
    relabel(repeat.body, now);
    operation.repeat = std::make_shared<const Repeat>(std::move(repeat));
  }
}

}  // namespace

void drop_unread(Software& software) {
  Table<ValueId, bool> needed(software.values.size(), false);
  for (const Port& port : software.outputs) needed[port.value] = true;
  std::vector<Operation> kept;
  for (auto operation = software.operations.rbegin(); operation != software.operations.rend();
       ++operation) {
    const bool read = std::any_of(operation->outputs.begin(), operation->outputs.end(),
                                  [&](ValueId id) { return static_cast<bool>(needed[id]); });
    if (!read) continue;
    for (const ValueId id : operation->inputs) needed[id] = true;
    kept.push_back(std::move(*operation));
  }
  std::reverse(kept.begin(), kept.end());
  software.operations = std::move(kept);
}

void compact(Software& software, const Software& before) {
  const Table<LayerIndex, bool> had = layers_with_operations(before, software.layers.size());
  const Table<LayerIndex, bool> has = layers_with_operations(software, software.layers.size());
  // Layers that were added stand where their operations are.
  std::vector<std::int32_t> order;
  const auto count = static_cast<std::int32_t>(before.layers.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (has[at] || !had[at]) order.push_back(i);
  }
  for (const Operation& operation : software.operations) {
    if (operation.layer < count || operation.repeat == nullptr) continue;
    const std::int32_t first = operation.repeat->body[0].layer;
    order.insert(std::find(order.begin(), order.end(), first), operation.layer);
  }
  Table<LayerIndex, LayerIndex> now(software.layers.size(), -1);
  std::vector<Layer> layers;
  for (const std::int32_t old : order) {
    now[old] = static_cast<std::int32_t>(layers.size());
    layers.push_back(std::move(software.layers[old]));
  }
  software.layers = std::move(layers);
  relabel(software.operations, now);
  renumber_values(software);
}

}  // namespace tessera::concord
