#include "compile/residency.h"

#include <algorithm>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

bool on_processor(const PlannedLayer& layer) {
  return layer.kind == LayerKind::kNeural || layer.kind == LayerKind::kPlanar ||
         layer.kind == LayerKind::kTranspose;
}

std::int64_t view_elements(const StorageView& view) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < 4; ++i) count *= view.strides[i] == 0 ? 1 : view.extents[i];
  return count;
}

// Writers reach the block: layers in their views, Moves by loads.
bool writers_fit(const PlanInputs& inputs, const Table<StorageIndex, StorageUses>& all,
                 const StorageUses& uses, const StorageView& whole, Resident& resident) {
  for (const std::int32_t writer : uses.writers) {
    if (fit_output(resident.layout, inputs.layers[writer]) == Fit::kNone) {
      return false;
    }
  }
  for (const auto& [layer, copy] : uses.copies) {
    const auto loads = plan_load_moves(*copy, whole, resident.layout);
    if (!loads) return false;
    // A source of an earlier segment is loaded when the Move comes.
    const std::int32_t written = all[copy->source].last_writer;
    const std::int32_t after = std::max(written, resident.segment_first);
    resident.first_layer = std::min(resident.first_layer, std::min(after, layer));
    for (const LoadMove& load : *loads) {
      resident.moves.push_back({layer, std::min(after, layer), load});
    }
  }
  return true;
}

// Sets the layers between which the storage lives. False where host steps lie between writers.
bool set_life(const Table<LayerIndex, std::int32_t>& segments, const StorageUses& uses,
              Resident& resident) {
  std::vector<std::int32_t> layers = uses.writers;
  for (const auto& [layer, copy] : uses.copies) layers.push_back(layer);
  const auto [first, last] = std::minmax_element(layers.begin(), layers.end());
  resident.first_layer = *first;
  resident.late_first_layer = *first;
  resident.last_layer = *last;
  resident.segment_first = static_cast<std::int32_t>(
      std::lower_bound(segments.begin(), segments.end(), segments[*first]) - segments.begin());
  return segments[*first] == segments[*last];
}

// Extends the life to the readers that take it from the buffer. False if some cannot.
bool count_uses(const PlanInputs& inputs, const Table<LayerIndex, std::int32_t>& segments,
                const StorageUses& uses, Resident& resident) {
  const std::int32_t segment = segments[resident.first_layer];
  bool all_fit = true;
  for (const auto& [reader, input] : uses.readers) {
    const PlannedLayer& layer = inputs.layers[reader];
    if (segments[reader] != segment || fit_input(resident.layout, layer, input) == Fit::kNone) {
      all_fit = false;
      continue;
    }
    resident.last_layer = std::max(resident.last_layer, reader);
    ++resident.uses;
  }
  return all_fit;
}

Resident find_resident(const PlanInputs& inputs, const Table<LayerIndex, std::int32_t>& segments,
                       const Table<StorageIndex, StorageUses>& all, std::size_t index) {
  const Storage& storage = inputs.storages.storages[index];
  const StorageUses& uses = all[index];
  Resident resident;
  const bool written =
      storage.base == isa::BaseIndex::kWorkspace || storage.base == isa::BaseIndex::kOutput;
  if (!written || uses.filled || (uses.writers.empty() && uses.copies.empty()) ||
      uses.readers.empty()) {
    return resident;
  }
  // A graph output that is copied together has to be in DRAM anyway.
  if (!uses.copies.empty() && storage.base == isa::BaseIndex::kOutput) return resident;
  // The layout that most readers can take, of those that the writers can leave.
  Resident best = resident;
  for (const StorageView& view : layout_views(inputs, storage, uses)) {
    Resident candidate;
    candidate.layout = BufferLayout(view, storage.format, inputs.chip.state_buffer.partitions);
    if (!set_life(segments, uses, candidate)) return resident;
    if (!writers_fit(inputs, all, uses, view, candidate)) continue;
    candidate.written = true;
    const bool all_fit = count_uses(inputs, segments, uses, candidate);
    // What Moves load into the block is not in DRAM for other readers.
    candidate.possible =
        candidate.uses > 0 && (uses.copies.empty() || (all_fit && !uses.read_in_dram));
    if (!best.written || candidate.uses > best.uses) best = std::move(candidate);
    if (all_fit) break;
  }
  return best;
}

bool maps(const BufferLayout& layout, const StorageView& view, Start start) {
  const auto mapped = layout.map(view);
  if (!mapped) return false;
  if (mapped->channel_first == 0 || start == Start::kAnywhere) return true;
  return start == Start::kWithinBlock &&
         mapped->channel_first % layout.partitions() + view.channels() <= layout.partitions();
}

Start start_of_parts(const PlannedLayer& layer) {
  return layer.way == TranspositionWay::kPlanar ? Start::kFirstPartition : Start::kAnywhere;
}

// One side of all parts of a transposition.
template <typename Side>
Fit fit_parts(const BufferLayout& layout, const PlannedLayer& layer, Side side) {
  const Start start = start_of_parts(layer);
  for (const TransposePart& part : layer.parts) {
    if (!maps(layout, side(part), start)) return Fit::kNone;
  }
  return Fit::kWhole;
}

}  // namespace

Table<StorageIndex, StorageUses> find_uses(const PlanInputs& inputs) {
  Table<StorageIndex, StorageUses> uses(inputs.storages.storages.size());
  const auto at = [&](StorageIndex index) -> StorageUses& { return uses[index]; };
  for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
    const PlannedLayer& layer = inputs.layers[i];
    const auto index = static_cast<std::int32_t>(i);
    if (layer.kind == LayerKind::kHost) {
      const graph::Node& node = inputs.graph.nodes[layer.node];
      for (const graph::TensorId id : node.outputs) {
        at(inputs.storages.places[id].storage).filled = true;
        at(inputs.storages.places[id].storage).last_writer = index;
      }
      for (const graph::TensorId id : node.inputs) {
        at(inputs.storages.places[id].storage).read_in_dram = true;
      }
    }
    for (const PlannedCopy& copy : layer.copies) {
      at(copy.destination).copies.emplace_back(index, &copy);
      at(copy.destination).last_writer = index;
      if (copy.fill) {
        at(copy.destination).filled = true;
      } else {
        at(copy.source).read_in_dram = true;
      }
    }
    if (!on_processor(layer)) continue;
    at(layer.output.storage).writers.push_back(index);
    at(layer.output.storage).last_writer = index;
    for (std::size_t k = 0; k < layer.inputs.size(); ++k) {
      at(layer.inputs[k].storage).readers.emplace_back(index, k);
    }
  }
  return uses;
}

std::vector<StorageView> layout_views(const PlanInputs& inputs, const Storage& storage,
                                      const StorageUses& uses) {
  std::vector<StorageView> views;
  const auto add = [&](const StorageView& view) {
    if (view.offset == 0 && view_elements(view) == storage.elements &&
        std::find(views.begin(), views.end(), view) == views.end()) {
      views.push_back(view);
    }
  };
  if (uses.writers.size() == 1 && uses.copies.empty()) {
    add(inputs.layers[uses.writers[0]].output);
  }
  for (const auto& [reader, input] : uses.readers) {
    add(inputs.layers[reader].inputs[input]);
  }
  return views;
}

Table<LayerIndex, std::int32_t> layer_segments(const Layers& layers) {
  Table<LayerIndex, std::int32_t> segments;
  std::int32_t segment = 0;
  for (const PlannedLayer& layer : layers) {
    segments.push_back(segment);
    if (layer.kind == LayerKind::kHost) ++segment;
  }
  return segments;
}

Start start_of_inputs(const PlannedLayer& layer) {
  if (layer.kind == LayerKind::kTranspose) return start_of_parts(layer);
  return layer.kind == LayerKind::kNeural ? Start::kWithinBlock : Start::kFirstPartition;
}
Start start_of_output(const PlannedLayer& layer) {
  if (layer.kind == LayerKind::kTranspose) return start_of_parts(layer);
  // Results of parts, which a pooling or a reduction may come in, begin in the first partition.
  const bool whole = layer.kind != LayerKind::kPlanar ||
                     (layer.planar.mode != isa::PlanarMode::kReduction && !layer.wide_window);
  return whole ? Start::kAnywhere : Start::kFirstPartition;
}

Fit fit_view(const BufferLayout& layout, const StorageView& view, Start start) {
  if (maps(layout, view, start)) return Fit::kWhole;
  // Images may be channels of the block, so that one in the middle begins where none may.
  const auto image_maps = [&](std::int64_t image) {
    return maps(layout, view.part(0, image, 1), start);
  };
  if (view.images() == 1 || !image_maps(view.images() - 1)) return Fit::kNone;
  for (std::int64_t image = 0; image < view.images() - 1; ++image) {
    if (!image_maps(image)) return Fit::kNone;
  }
  return Fit::kByImage;
}

Fit fit_input(const BufferLayout& layout, const PlannedLayer& layer, std::size_t input) {
  if (layer.kind == LayerKind::kTranspose) {
    return fit_parts(layout, layer, [](const TransposePart& part) { return part.from; });
  }
  return fit_view(layout, layer.inputs[input], start_of_inputs(layer));
}

Fit fit_output(const BufferLayout& layout, const PlannedLayer& layer) {
  if (layer.kind == LayerKind::kTranspose) {
    if (layer.way == TranspositionWay::kDma) return Fit::kNone;  // it writes DRAM
    return fit_parts(layout, layer, [](const TransposePart& part) { return part.to; });
  }
  return fit_view(layout, layer.output, start_of_output(layer));
}

Table<StorageIndex, LayerIndex> find_last_reads(const PlanInputs& inputs) {
  Table<StorageIndex, LayerIndex> last(inputs.storages.storages.size(), -1);
  const auto read = [&](StorageIndex storage, std::int32_t layer) {
    auto& at = last[storage];
    at = std::max(at, layer);
  };
  for (std::size_t i = 0; i < inputs.layers.size(); ++i) {
    const PlannedLayer& layer = inputs.layers[i];
    const auto index = static_cast<std::int32_t>(i);
    if (on_processor(layer)) {
      for (const StorageView& view : layer.inputs) read(view.storage, index);
    }
    for (const PlannedCopy& copy : layer.copies) {
      if (!copy.fill) read(copy.source, index);
    }
    if (layer.kind != LayerKind::kHost) continue;
    for (const graph::TensorId id : inputs.graph.nodes[layer.node].inputs) {
      read(inputs.storages.places[id].storage, index);
    }
  }
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (inputs.storages.storages[i].base == isa::BaseIndex::kOutput) last[i] = INT32_MAX;
  }
  return last;
}

Residents find_residents(const PlanInputs& inputs) {
  const Table<StorageIndex, StorageUses> uses = find_uses(inputs);
  const Table<LayerIndex, std::int32_t> segments = layer_segments(inputs.layers);
  Residents residents;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    residents.push_back(find_resident(inputs, segments, uses, i));
  }
  return residents;
}

bool load_late(Resident& resident) {
  // Behind the layer before, so that the load is on its way when somebody else writes.
  const std::int32_t first = std::max(resident.late_first_layer - 1, resident.first_layer);
  bool later = false;
  for (ResidentMove& move : resident.moves) {
    later = later || move.after < first;
    move.after = std::max(move.after, first);
  }
  resident.first_layer = first;
  return later;
}

MovesAfter find_moves_after(const Residents& residents, std::size_t layers) {
  MovesAfter after(layers);
  for (std::size_t i = 0; i < residents.size(); ++i) {
    const std::vector<ResidentMove>& moves = residents[i].moves;
    for (std::size_t k = 0; k < moves.size(); ++k) {
      after[moves[k].after].push_back({static_cast<StorageIndex>(i), k});
    }
  }
  return after;
}

ResidentBytes::ResidentBytes(const Residents& residents, std::size_t layers)
    : begun_(layers, 0), ended_(layers, 0) {
  for (const Resident& resident : residents) {
    if (!resident.active) continue;
    const std::int64_t bytes = round_up(resident.layout.bytes(), kAlignmentBytes);
    begun_[resident.first_layer] += bytes;
    ended_[resident.last_layer] += bytes;
  }
  for (std::size_t i = 1; i < layers; ++i) {
    begun_[i] += begun_[i - 1];
    ended_[i] += ended_[i - 1];
  }
}

}  // namespace tessera::compile
