#include "compile/early_outputs.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/quantity.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Elements of a storage that are looked at together.
constexpr std::int64_t kGranule = 32;

// The granules that a view has elements in, run by run.
template <typename Visit>
void for_each_granule(const StorageView& view, Visit&& visit) {
  const auto held = [&](std::size_t axis) {
    return view.strides[axis] == 0 ? std::int64_t{1} : view.extents[axis];
  };
  const std::int64_t run = (held(kColumns) - 1) * view.strides[kColumns];
  for (std::int64_t image = 0; image < held(kImages); ++image) {
    for (std::int64_t channel = 0; channel < held(kChannels); ++channel) {
      for (std::int64_t row = 0; row < held(kRows); ++row) {
        const std::int64_t first = view.offset + image * view.strides[kImages] +
                                   channel * view.strides[kChannels] + row * view.strides[kRows];
        for (std::int64_t i = first / kGranule; i <= (first + run) / kGranule; ++i) visit(i);
      }
    }
  }
}

// Layers of the planar engine, in no cascade, behind whose results nothing but outputs comes.
Table<LayerIndex, bool> layers_of_outputs(const PlanInputs& inputs, const Plan& plan) {
  Table<LayerIndex, bool> leads_out(inputs.layers.size(), false);
  for (LayerIndex i = 0; i < std::ssize(inputs.layers); ++i) {
    leads_out[i] = inputs.layers[i].kind == LayerKind::kPlanar;
  }
  for (const LayerRange& cascade : plan.cascades) {
    for (LayerIndex i = cascade.first; i <= cascade.last; ++i) leads_out[i] = false;
  }
  Table<StorageIndex, bool> is_open(inputs.storages.storages.size(), true);
  for (LayerIndex i = static_cast<LayerIndex>(std::ssize(inputs.layers)); i-- > 0;) {
    const PlannedLayer& layer = inputs.layers[i];
    if (layer.kind == LayerKind::kHost) {
      for (const graph::TensorId id : inputs.graph.nodes[layer.node].inputs) {
        is_open[inputs.storages.places[id].storage] = false;
      }
      continue;
    }
    for (const PlannedCopy& copy : layer.copies) {
      if (!copy.fill) is_open[copy.source] = false;
    }
    if (layer.kind == LayerKind::kCopy) continue;
    leads_out[i] = leads_out[i] && is_open[layer.output.storage];
    if (leads_out[i]) continue;
    for (const StorageView& input : layer.inputs) {
      if (input.storage >= 0) is_open[input.storage] = false;
    }
  }
  return leads_out;
}

// The pieces that have written a part of a storage: the last one, and the latest place of any.
struct Written {
  PieceIndex last = -1, place = -1;
};

// By whom each part of the storages was written, as far as somebody asks.
class Writers {
 public:
  explicit Writers(const StoragePlan& storages) : storages_(storages) {}

  void watch(StorageIndex index) {
    const std::int64_t elements = storages_.storages[index].elements;
    known_[index].assign(static_cast<std::size_t>(elements / kGranule + 1), {});
  }
  void write(const StorageView& view, const Written& piece) {
    const auto found = known_.find(view.storage);
    if (found == known_.end()) return;
    for_each_granule(
        view, [&](std::int64_t i) { add(piece, found->second[static_cast<std::size_t>(i)]); });
  }
  void write_all(StorageIndex index, const Written& piece) {
    const auto found = known_.find(index);
    if (found == known_.end()) return;
    for (Written& part : found->second) add(piece, part);
  }
  // Of all that wrote something of the view; -1: none did.
  Written of(const StorageView& view) const {
    const std::vector<Written>& parts = known_.at(view.storage);
    Written all;
    for_each_granule(view, [&](std::int64_t i) { add(parts[static_cast<std::size_t>(i)], all); });
    return all;
  }

 private:
  static void add(const Written& piece, Written& to) {
    to.last = std::max(to.last, piece.last);
    to.place = std::max(to.place, piece.place);
  }

  const StoragePlan& storages_;
  std::map<StorageIndex, std::vector<Written>> known_;
};

// The latest place of the pieces that have loaded into a block of the state buffer, or made it, and of all
// that have used it.
class BlockUses {
 public:
  explicit BlockUses(std::size_t blocks) : filled_(blocks, -1), used_(blocks, -1) {}

  // What the piece finds in its blocks is there, and what it overwrites is not wanted any more.
  PieceIndex before(const Piece& piece) const {
    PieceIndex last = piece.output.block >= 0 ? used_[piece.output.block] : -1;
    for (const PieceOperand& input : piece.inputs) {
      if (input.block < 0) continue;
      last = std::max(last, input.transfer ? used_[input.block] : filled_[input.block]);
    }
    return last;
  }
  void add(const Piece& piece, PieceIndex place) {
    const auto use = [&](BlockIndex block, bool fills) {
      if (block < 0) return;
      used_[block] = std::max(used_[block], place);
      if (fills) filled_[block] = std::max(filled_[block], place);
    };
    for (const PieceMove& move : piece.moves) use(move.block, true);
    for (const PieceOperand& input : piece.inputs) use(input.block, input.transfer);
    use(piece.output.block, true);
    use(piece.part.block, true);
  }

 private:
  Table<BlockIndex, PieceIndex> filled_, used_;
};

}  // namespace

std::vector<PieceIndex> early_outputs(const PlanInputs& inputs, const Plan& plan) {
  const Table<LayerIndex, bool> leads_out = layers_of_outputs(inputs, plan);
  const auto count = static_cast<PieceIndex>(std::ssize(plan.pieces));
  Writers writers(inputs.storages);
  Table<LayerIndex, PieceIndex> behind(inputs.layers.size(), -1);  // of early layers' last pieces
  std::vector<PieceIndex> next(static_cast<std::size_t>(count), -1);  // piece of the same layer
  for (PieceIndex i = 0; i < count; ++i) {
    const PieceIndex before = behind[plan.pieces[i].layer];
    if (before >= 0) next[static_cast<std::size_t>(before)] = i;
    behind[plan.pieces[i].layer] = i;
    if (!leads_out[plan.pieces[i].layer]) continue;
    for (const PieceOperand& input : plan.pieces[i].inputs) writers.watch(input.view.storage);
  }
  behind.assign(inputs.layers.size(), -1);
  std::vector<PieceIndex> place(
      static_cast<std::size_t>(count));  // the piece that each one follows, or itself
  std::iota(place.begin(), place.end(), 0);
  PieceIndex host = -1;  // nothing passes it
  BlockUses blocks(plan.buffer_blocks.size());
  for (PieceIndex i = 0; i < count; ++i) {
    const Piece& piece = plan.pieces[i];
    PieceIndex& at = place[static_cast<std::size_t>(i)];
    if (leads_out[piece.layer] && piece.moves.empty() && piece.copies.empty() &&
        !piece.part.one_of_several()) {
      at = std::max({host, behind[piece.layer], blocks.before(piece)});
      for (const PieceOperand& input : piece.inputs) {
        const Written written = writers.of(input.view);
        if (written.last < 0) continue;
        at = std::max(at, written.place);
        const PieceIndex later = next[static_cast<std::size_t>(written.last)];
        // Until then it has been stored.
        const bool waits = input.transfer && later >= 0 && later < i;
        if (waits) at = std::max(at, place[static_cast<std::size_t>(later)]);
      }
      at = std::min(at, i);
    }
    behind[piece.layer] = at;
    blocks.add(piece, at);
    if (inputs.layers[piece.layer].kind == LayerKind::kHost) host = i;
    const Written written{i, at};
    if (piece.output.block >= 0) writers.write(piece.output.view, written);
    for (const PieceMove& move : piece.moves) writers.write(move.to, written);
    for (const std::int32_t copy : piece.copies) {
      writers.write_all(inputs.layers[piece.layer].copies[copy].destination, written);
    }
  }
  std::vector<PieceIndex> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {},
                           [&](PieceIndex i) { return place[static_cast<std::size_t>(i)]; });
  return std::ranges::is_sorted(order) ? std::vector<PieceIndex>{} : order;
}

}  // namespace tessera::compile
