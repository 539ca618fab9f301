#include "device/value_notes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "arith/value_extent.h"

namespace tessera::device {
namespace {

ValueNotes shared(std::vector<ValueNote> notes) {
  if (notes.empty()) return nullptr;
  return std::make_shared<const std::vector<ValueNote>>(std::move(notes));
}

bool may_say(const LayerUse& layer) {
  return layer.accumulator_range || layer.extent >= ValueExtent::kEnd ||
         layer.extent == ValueExtent::kZero || layer.extent == ValueExtent::kTiny;
}

std::vector<graph::NodeValues> values_of(const graph::Graph& graph,
                                         const std::vector<LayerUse>& layers) {
  std::map<std::string_view, const LayerUse*> by_name;
  for (const LayerUse& layer : layers) by_name[layer.name] = &layer;
  std::vector<graph::NodeValues> values(graph.nodes.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto found = by_name.find(graph.nodes[i].name);
    if (found == by_name.end()) continue;
    values[i] = {found->second->extent, found->second->accumulator_range};
  }
  return values;
}

std::vector<ValueNote> notes_of_layers(const std::vector<LayerUse>& layers, Format format) {
  std::vector<ValueNote> notes;
  for (const LayerUse& layer : layers) {
    if (layer.accumulator_range) notes.push_back({layer.name, ValueTrouble::kAccumulator, format});
    if (layer.extent < ValueExtent::kEnd) continue;
    notes.push_back({layer.name, graph::trouble_of(layer.extent), format});
  }
  return notes;
}

}  // namespace

std::uint32_t status_flags(const arith::StickyFlags& flags) {
  return (flags.nan ? 1u : 0u) | (flags.infinity ? 2u : 0u) | (flags.accumulator_range ? 4u : 0u);
}

ValueNotes value_notes(const graph::Graph& graph, const graph::NoteTable& notes,
                       std::span<const graph::NodeValues> values,
                       std::span<const std::span<std::byte>> inputs) {
  if (values.size() != graph.nodes.size()) return nullptr;
  return shared(notes.notes(values, [&](std::size_t input) {
    const graph::TensorInfo& info = graph.tensor(graph.inputs[input]);
    return arith::value_extent(info.format, inputs[input].data(), element_count(info.dims));
  }));
}

std::vector<ValueNote> value_notes(const NetworkState& network, const Completion& completion,
                                   const std::function<ValueExtent(std::size_t input)>& input) {
  if (completion.value_notes != nullptr) return *completion.value_notes;
  if (completion.details == nullptr) return {};
  const std::vector<LayerUse>& layers = completion.details->layers;
  if (std::none_of(layers.begin(), layers.end(), may_say)) return {};
  if (network.program != nullptr) return notes_of_layers(layers, network.chip.formats.vector);
  return graph::value_notes(network.graph(), values_of(network.graph(), layers), input);
}

}  // namespace tessera::device
