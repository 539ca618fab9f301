#include "compile/residency.h"

#include <algorithm>

namespace tessera::compile {
namespace {

bool on_processor(const Layer& layer) {
  return layer.kind == LayerKind::kNeural || layer.kind == LayerKind::kPlanar;
}

// All uses of one storage.
struct Uses {
  std::vector<std::int32_t> writers;  // processor layers
  std::vector<std::pair<std::int32_t, std::size_t>> readers;  // processor layers and their input
  bool copied_into = false;  // a copy or a host step writes it
};

std::vector<Uses> find_uses(const PlanInputs& inputs) {
  std::vector<Uses> uses(inputs.storages.storages.size());
  const auto at = [&](StorageIndex index) -> Uses& { return uses[static_cast<std::size_t>(index)]; };
  for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
    const Layer& layer = inputs.layers[i];
    const auto index = static_cast<std::int32_t>(i);
    if (layer.kind == LayerKind::kHost) {
      const graph::Node& node = inputs.graph.nodes[static_cast<std::size_t>(layer.node)];
      for (const graph::TensorId id : node.outputs) {
        at(inputs.storages.places[static_cast<std::size_t>(id.value)].storage).copied_into = true;
      }
    }
    for (const PlannedCopy& copy : layer.copies) at(copy.destination).copied_into = true;
    if (!on_processor(layer)) continue;
    at(layer.output.storage).writers.push_back(index);
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      at(layer.inputs[k].storage).readers.emplace_back(index, k);
    }
  }
  return uses;
}

std::int64_t view_elements(const StorageView& view) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < 4; ++i) count *= view.strides[i] == 0 ? 1 : view.extents[i];
  return count;
}

// The view whose layout the storage takes: its only writer's, or a reader's that takes it all.
const StorageView* layout_view(const PlanInputs& inputs, const Storage& storage, const Uses& uses) {
  if (uses.writers.size() == 1) {
    const StorageView& view = inputs.layers[static_cast<std::size_t>(uses.writers[0])].output;
    return view_elements(view) == storage.elements ? &view : nullptr;
  }
  for (const auto& [reader, input] : uses.readers) {
    const StorageView& view = inputs.layers[static_cast<std::size_t>(reader)].inputs[input];
    if (view.offset == 0 && view_elements(view) == storage.elements) return &view;
  }
  return nullptr;
}

Resident find_resident(const PlanInputs& inputs, const std::vector<std::int32_t>& segments,
                       const Storage& storage, const Uses& uses) {
  Resident resident;
  const bool written = storage.base == program::BaseIndex::kWorkspace ||
                       storage.base == program::BaseIndex::kOutput;
  if (!written || uses.copied_into || uses.writers.empty() || uses.readers.empty()) return resident;
  const StorageView* view = layout_view(inputs, storage, uses);
  if (view == nullptr) return resident;
  resident.layout = BufferLayout(*view, storage.format, inputs.chip.state_buffer.partitions);
  resident.first_layer = uses.writers.front();
  resident.last_layer = uses.writers.back();
  const std::int32_t segment = segments[static_cast<std::size_t>(uses.writers.front())];
  for (const std::int32_t writer : uses.writers) {
    const Layer& layer = inputs.layers[static_cast<std::size_t>(writer)];
    if (segments[static_cast<std::size_t>(writer)] != segment ||
        fit_output(resident.layout, layer) == Fit::kNone) {
      return resident;
    }
  }
  for (const auto& [reader, input] : uses.readers) {
    const Layer& layer = inputs.layers[static_cast<std::size_t>(reader)];
    if (segments[static_cast<std::size_t>(reader)] != segment ||
        fit_input(resident.layout, layer, input) == Fit::kNone) {
      continue;
    }
    resident.last_layer = std::max(resident.last_layer, reader);
    ++resident.uses;
  }
  resident.possible = resident.uses > 0;
  return resident;
}

bool maps(const BufferLayout& layout, const StorageView& view, Start start) {
  const auto mapped = layout.map(view);
  if (!mapped) return false;
  if (mapped->channel_first == 0 || start == Start::kAnywhere) return true;
  return start == Start::kWithinBlock &&
         mapped->channel_first % layout.partitions() + view.channels() <= layout.partitions();
}

}  // namespace

std::vector<std::int32_t> layer_segments(const std::vector<Layer>& layers) {
  std::vector<std::int32_t> segments;
  std::int32_t segment = 0;
  for (const Layer& layer : layers) {
    segments.push_back(segment);
    if (layer.kind == LayerKind::kHost) ++segment;
  }
  return segments;
}

Fit fit_view(const BufferLayout& layout, const StorageView& view, Start start) {
  if (maps(layout, view, start)) return Fit::kWhole;
  if (view.images() > 1 && maps(layout, view.part(0, 0, 1), start) &&
      maps(layout, view.part(0, view.images() - 1, 1), start)) {
    return Fit::kByImage;
  }
  return Fit::kNone;
}

Fit fit_input(const BufferLayout& layout, const Layer& layer, std::size_t input) {
  const bool moving = layer.kind == LayerKind::kNeural && input == 0;
  return fit_view(layout, layer.inputs[input],
                  moving ? Start::kWithinBlock : Start::kFirstPartition);
}

Fit fit_output(const BufferLayout& layout, const Layer& layer) {
  return fit_view(layout, layer.output,
                  layer.kind == LayerKind::kNeural ? Start::kAnywhere : Start::kFirstPartition);
}

std::vector<Resident> find_residents(const PlanInputs& inputs) {
  const std::vector<Uses> uses = find_uses(inputs);
  const std::vector<std::int32_t> segments = layer_segments(inputs.layers);
  std::vector<Resident> residents;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    residents.push_back(find_resident(inputs, segments, inputs.storages.storages[i], uses[i]));
  }
  return residents;
}

}  // namespace tessera::compile
