#include "compile/share_residency.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

using Regions = std::vector<PlaneRegion>;  // of each core

// What the pieces of a core, of one layer or of several, write of the plane.
struct Written {
  PlaneRegion around;
  std::int64_t elements = 0;
  bool gathered = false;  // some have elements between those of others

  bool region() const { return around.elements() == elements; }
};

// Adds what a layer's pieces write; false where that has no place in the plane.
bool add_written(const ChannelPlane& plane, const std::vector<Piece>& pieces, Written& all) {
  for (const Piece& piece : pieces) {
    if (piece.part.keeps) continue;
    const StorageView& view = piece.output.view;
    const auto around = plane.around(view);
    if (!around) return false;
    all.around = hull(all.around, *around);
    all.elements += std::accumulate(view.extents.begin(), view.extents.end(), std::int64_t{1},
                                    std::multiplies<>());
    all.gathered = all.gathered || !plane.region(view);
  }
  return true;
}

std::optional<PlaneRegion> read_by(const ChannelPlane& plane, const std::vector<Piece>& pieces,
                                   std::size_t input) {
  PlaneRegion all;
  for (const Piece& piece : pieces) {
    const auto region = plane.region(piece.inputs[input].view);
    if (!region) return std::nullopt;
    all = hull(all, *region);
  }
  return all;
}

// `whole` less `part`, which lies in it: what is before and behind it in the plane with all channels,
// the other channels beside it, and other images.
Regions edges(const PlaneRegion& whole, const PlaneRegion& part) {
  if (whole.empty()) return {};
  if (part.empty()) return {whole};
  PlaneRegion before = whole, after = whole, below = part, above = part;
  PlaneRegion earlier = whole, later = whole;  // images
  earlier.images.last = part.images.first;
  later.images.first = part.images.last;
  before.images = after.images = part.images;
  before.plane.last = part.plane.first;
  after.plane.first = part.plane.last;
  below.channels = {whole.channels.first, part.channels.first};
  above.channels = {part.channels.last, whole.channels.last};
  Regions result;
  for (const PlaneRegion& edge : {earlier, before, below, above, after, later}) {
    if (!edge.empty()) result.push_back(edge);
  }
  return result;
}

// Regions with the same channels, or the same plane, that meet become one.
void merge_into(Regions& regions, PlaneRegion region) {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    const PlaneRegion& other = regions[i];
    const PlaneRegion both = hull(other, region);
    const std::int64_t common = intersection(other, region).elements();
    if (both.elements() != other.elements() + region.elements() - common) continue;
    regions.erase(regions.begin() + static_cast<std::ptrdiff_t>(i));
    merge_into(regions, both);
    return;
  }
  regions.push_back(region);
}

// What cores load of each other's parts.
void add_edges(HeldStorage& held) {
  for (std::size_t core = 0; core < held.cores.size(); ++core) {
    held.cores[core].loads = edges(held.cores[core].held, held.cores[core].written);
    for (const PlaneRegion& load : held.cores[core].loads) {
      for (std::size_t owner = 0; owner < held.cores.size(); ++owner) {
        const PlaneRegion part = intersection(load, held.cores[owner].written);
        if (owner != core && !part.empty()) merge_into(held.cores[owner].stores, part);
      }
    }
  }
}

// A partition, of the largest part.
std::int64_t held_bytes(const ChipConfig& chip, const Storage& storage, const HeldStorage& held) {
  std::int64_t bytes = 0;
  for (const HeldPart& part : held.cores) {
    if (part.held.empty()) continue;
    bytes = std::max(bytes, view_bytes(held.plane.view(part.held), storage.format,
                                       chip.state_buffer.partitions));
  }
  return round_up(bytes, kAlignmentBytes);
}

class Finder {
 public:
  Finder(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work)
      : inputs_(inputs),
        work_(work),
        uses_(find_uses(inputs)),
        segments_(layer_segments(inputs.layers)) {}

  HeldStorages run() {
    HeldStorages held;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      held.push_back(find(static_cast<StorageIndex>(i)));
    }
    return held;
  }

 private:
  static HeldStorage in_dram(HandOver why) {
    HeldStorage held;
    held.why = why;
    return held;
  }

  HeldStorage find(StorageIndex index) {
    const Storage& storage = inputs_.storages.storages[index];
    const StorageUses& uses = uses_[index];
    const bool made =
        storage.base == isa::BaseIndex::kWorkspace || storage.base == isa::BaseIndex::kOutput;
    if (!made || uses.readers.empty()) return {};
    if (uses.filled || !uses.copies.empty() || uses.writers.empty()) {
      return in_dram(HandOver::kInDram);
    }
    HeldStorage best = in_dram(HandOver::kOtherLayout);
    for (const StorageView& view : layout_views(inputs_, storage, uses)) {
      const auto plane = ChannelPlane::of(view, storage.elements);
      if (!plane) continue;
      HeldStorage found = find_on(*plane, storage, uses);
      if (!found.active) find_gathered(*plane, storage, uses, found);
      const bool first = !best.active && (found.active || best.why == HandOver::kOtherLayout);
      if (first || found.readers.size() > best.readers.size()) {
        best = std::move(found);
      }
    }
    return best;
  }

  // Of each core what it writes; none where it cannot stay.
  std::optional<Regions> find_written(const ChannelPlane& plane,
                                      const std::vector<LayerIndex>& writers,
                                      bool& gathered) const {
    Regions written;
    for (std::size_t core = 0; core < work_[writers[0]].pieces.size(); ++core) {
      Written all;
      for (const LayerIndex writer : writers) {
        if (!writes_buffer(inputs_.layers[writer]) || segments_[writer] != segments_[writers[0]] ||
            !add_written(plane, work_[writer].pieces[core], all)) {
          return std::nullopt;
        }
      }
      if (!all.region()) return std::nullopt;
      // Else nobody would store it.
      if (all.gathered && work_[writers.back()].pieces[core].empty()) return std::nullopt;
      gathered = gathered || all.gathered;
      written.push_back(all.around);
    }
    return written;
  }

  // Of each core what the reader takes, if most of that is what the core wrote itself.
  std::optional<Regions> find_taken(const ChannelPlane& plane, const Regions& written,
                                    LayerIndex reader, std::size_t input, HandOver& why) const {
    if (!reads_buffer(inputs_.layers[reader])) return std::nullopt;
    Regions taken;
    std::int64_t needed = 0, own = 0;
    for (std::size_t core = 0; core < written.size(); ++core) {
      const auto region = read_by(plane, work_[reader].pieces[core], input);
      if (!region) return std::nullopt;
      needed += region->elements();
      own += intersection(*region, written[core]).elements();
      taken.push_back(*region);
    }
    if (2 * own >= needed && own > 0) return taken;
    why = HandOver::kOthersRead;
    return std::nullopt;
  }

  // Some of it, which the last writer has not stored yet.
  static bool is_read_before(LayerIndex last_writer, const StorageUses& uses) {
    return std::ranges::any_of(uses.readers,
                               [&](const auto& reader) { return reader.first <= last_writer; });
  }

  HeldStorage find_on(const ChannelPlane& plane, const Storage& storage,
                      const StorageUses& uses) const {
    HeldStorage held;
    held.writers = uses.writers;
    std::ranges::sort(held.writers);
    const auto written = find_written(plane, held.writers, held.gathered);
    if (!written || (held.gathered && is_read_before(held.writers.back(), uses))) {
      return in_dram(HandOver::kOtherLayout);
    }
    HandOver why = HandOver::kOtherLayout;  // where no reader has it otherwise
    begin_held(plane, *written, held);
    held.stored = uses.read_in_dram || storage.base == isa::BaseIndex::kOutput;
    for (const auto& [reader, input] : uses.readers) {
      std::optional<Regions> taken;
      if (segments_[reader] == segments_[held.first_layer] && reader > uses.last_writer) {
        taken = find_taken(plane, *written, reader, input, why);
      }
      if (!taken) {
        held.stored = true;
        continue;
      }
      for (std::size_t core = 0; core < written->size(); ++core) {
        held.cores[core].held = hull(held.cores[core].held, (*taken)[core]);
      }
      held.readers.emplace_back(reader, input);
      held.load_layer = std::min(held.load_layer, reader);
      held.last_layer = std::max(held.last_layer, reader);
    }
    if (held.readers.empty()) return in_dram(why);
    add_edges(held);
    held.why = HandOver::kStays;
    end_held(storage, held);
    return held;
  }

  // Nobody takes it in the buffer, but some layers have parts of each other's rows: these write them there,
  // and the last one stores them. Changes `held` only if there are such.
  void find_gathered(const ChannelPlane& plane, const Storage& storage, const StorageUses& uses,
                     HeldStorage& held) const {
    HeldStorage found;
    for (const LayerIndex writer : uses.writers) {
      const bool part = std::ranges::any_of(work_[writer].pieces, [&](const auto& pieces) {
        return std::ranges::any_of(pieces, [&](const Piece& piece) {
          return !piece.part.keeps && !plane.region(piece.output.view);
        });
      });
      if (part) found.writers.push_back(writer);
    }
    if (found.writers.size() < 2) return;
    std::ranges::sort(found.writers);
    if (is_read_before(found.writers.back(), uses)) return;
    const auto written = find_written(plane, found.writers, found.gathered);
    if (!written) return;
    begin_held(plane, *written, found);
    found.stored = true;
    found.why = held.why;
    end_held(storage, found);
    held = std::move(found);
  }

  static void begin_held(const ChannelPlane& plane, const Regions& written, HeldStorage& held) {
    held.plane = plane;
    held.first_layer = held.writers.front();
    held.last_layer = held.writers.back();
    held.load_layer = INT32_MAX;
    for (const PlaneRegion& of_core : written) {
      held.cores.push_back({.held = of_core, .written = of_core, .loads = {}, .stores = {}});
    }
  }

  void end_held(const Storage& storage, HeldStorage& held) const {
    held.bytes = held_bytes(inputs_.chip, storage, held);
    held.active = true;
  }

  const PlanInputs& inputs_;
  const Table<LayerIndex, LayerWork>& work_;
  const Table<StorageIndex, StorageUses> uses_;
  const Table<LayerIndex, std::int32_t> segments_;
};

}  // namespace

bool reads_buffer(const PlannedLayer& layer) {
  return layer.kind == LayerKind::kNeural || layer.kind == LayerKind::kPlanar ||
         layer.kind == LayerKind::kTranspose;
}
bool writes_buffer(const PlannedLayer& layer) {
  const bool to_dram = layer.kind == LayerKind::kTranspose && layer.way == TranspositionWay::kDma;
  return reads_buffer(layer) && !to_dram;
}

bool HeldStorage::taken_by(LayerIndex layer, std::size_t input) const {
  return active && std::ranges::find(readers, std::pair{layer, input}) != readers.end();
}

bool HeldStorage::written_by(LayerIndex layer) const {
  return active && std::ranges::binary_search(writers, layer);
}

HeldStorages find_held(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work) {
  return Finder(inputs, work).run();
}

void drop_reader(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work,
                 LayerIndex reader, std::size_t input, HeldStorage& held) {
  held.unfit_readers.emplace_back(reader, input);
  std::erase(held.readers, std::pair{reader, input});
  held.stored = true;
  if (held.readers.empty() && !held.gathered) {
    demote(held, HandOver::kOtherLayout);
    held.unfit = true;
    return;
  }
  held.last_layer = held.writers.back();
  held.load_layer = INT32_MAX;
  for (HeldPart& part : held.cores) part = {part.written, part.written, {}, {}};
  for (const auto& [layer, of_input] : held.readers) {
    held.load_layer = std::min(held.load_layer, layer);
    held.last_layer = std::max(held.last_layer, layer);
    for (std::size_t core = 0; core < held.cores.size(); ++core) {
      const auto taken = read_by(held.plane, work[layer].pieces[core], of_input);
      held.cores[core].held = hull(held.cores[core].held, *taken);
    }
  }
  add_edges(held);
  const StorageIndex storage = inputs.layers[reader].inputs[input].storage;
  held.bytes = held_bytes(inputs.chip, inputs.storages.storages[storage], held);
}

void demote(HeldStorage& held, HandOver why) {
  held.active = false;
  held.why = why;
}

bool demote_held(HeldStorages& held, LayerIndex first, LayerIndex last) {
  HeldStorage* worst = nullptr;
  double worst_score = 0;
  for (HeldStorage& storage : held) {
    if (!storage.active || storage.first_layer > last || storage.last_layer < first) continue;
    const double life = storage.last_layer - storage.first_layer + 1;
    const double score = life / (1 + static_cast<double>(storage.readers.size())) *
                         static_cast<double>(storage.bytes);
    if (worst != nullptr && score <= worst_score) continue;
    worst = &storage;
    worst_score = score;
  }
  if (worst == nullptr) return false;
  demote(*worst, HandOver::kNoRoom);
  return true;
}

}  // namespace tessera::compile
