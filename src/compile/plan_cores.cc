#include "compile/plan_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compile/piece_list.h"
#include "compile/pieces.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Attempts with fewer and fewer storages that stay, until every core has a place for everything.
class CorePlanner {
 public:
  CorePlanner(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work, bool hand_over)
      : inputs_(inputs), work_(work), cores_(work.empty() ? 0 : work[0].copies.size()) {
    if (hand_over) {
      result_.held = find_held(inputs, work);
      return;
    }
    HeldStorage off;
    off.why = HandOver::kSwitchedOff;
    result_.held = HeldStorages(inputs.storages.storages.size(), off);
  }

  Result<CorePlans> run() {
    leave_room();
    for (;;) {
      const std::optional<Misfit> misfit = attempt();
      if (std::exchange(gave_up_, false)) continue;
      if (!misfit) return std::move(result_);
      if (!demote_held(result_.held, misfit->first_layer, misfit->last_layer)) {
        return misfit->error;
      }
    }
  }

 private:
  // What a layer found that no attempt will place: for a reader, or at all.
  struct Unfit {
    StorageIndex storage = -1;
    std::optional<std::pair<LayerIndex, std::size_t>> reader = {};
    HandOver why = HandOver::kOtherLayout;
  };

  std::int64_t capacity() const { return inputs_.chip.state_buffer.bytes_per_partition; }

  // Of each layer: the bytes that stay meanwhile.
  void sum_held_bytes() {
    held_bytes_.assign(work_.size() + 1, 0);
    for (const HeldStorage& held : result_.held) {
      if (!held.active || held.first_layer > held.last_layer) continue;
      held_bytes_[static_cast<std::size_t>(held.first_layer)] += held.bytes;
      held_bytes_[static_cast<std::size_t>(held.last_layer) + 1] -= held.bytes;
    }
    std::partial_sum(held_bytes_.begin(), held_bytes_.end(), held_bytes_.begin());
  }
  std::int64_t held_bytes(LayerIndex layer) const {
    return held_bytes_[static_cast<std::size_t>(layer)];
  }

  // A quarter of the buffer is for what comes and goes.
  void leave_room() {
    sum_held_bytes();
    for (LayerIndex layer = 0; layer < std::ssize(work_); ++layer) {
      while (held_bytes(layer) > capacity() / 4 * 3 && demote_held(result_.held, layer, layer)) {
        sum_held_bytes();
      }
    }
  }

  // What a core loads of others' parts goes before the layer that first takes it.
  void find_loads() {
    loads_before_.assign(work_.size(), {});
    for (const HeldStorage& held : result_.held) {
      if (!held.active || held.load_layer >= std::ssize(work_)) continue;  // not read
      loads_before_[static_cast<std::size_t>(held.load_layer)].push_back(&held);
    }
  }

  std::optional<Misfit> attempt() {
    result_.plans.clear();
    sum_held_bytes();
    find_loads();
    for (std::size_t core = 0; core < cores_; ++core) {
      Residents residents = residents_of(core);
      PieceList list(inputs_, residents);
      for (LayerIndex layer = 0; layer < std::ssize(work_);) {
        auto misfit = add_layer(layer, core, residents, list);
        if (misfit && !unfit_) return misfit;
        if (misfit) {
          give_up_unfit(residents);
        } else {
          ++layer;
        }
      }
      if (gave_up_) return std::nullopt;
      if (auto misfit = list.place()) {
        misfit->error = misfit->error.with_context(fmt::format("core {}", core));
        return misfit;
      }
      list.plan().homes.assign(inputs_.storages.storages.size(), -1);
      result_.plans.push_back(std::move(list.plan()));
    }
    return std::nullopt;
  }

  // No attempt will place it. This one goes on without it, to find what else there is.
  void give_up_unfit(Residents& residents) {
    HeldStorage& held = result_.held[unfit_->storage];
    if (unfit_->reader) {
      drop_reader(inputs_, work_, unfit_->reader->first, unfit_->reader->second, held);
    } else {
      demote(held, unfit_->why);
      held.unfit = true;
    }
    if (!held.active) residents[unfit_->storage].active = false;
    sum_held_bytes();
    unfit_.reset();
    gave_up_ = true;
  }

  Residents residents_of(std::size_t core) const {
    Residents residents(result_.held.size());
    for (std::size_t i = 0; i < residents.size(); ++i) {
      const HeldStorage& held = result_.held[i];
      if (!held.active || held.cores[core].held.empty()) continue;
      residents[i].active = true;
      residents[i].layout =
          BufferLayout(held.plane.view(held.cores[core].held), inputs_.storages.storages[i].format,
                       inputs_.chip.state_buffer.partitions);
    }
    return residents;
  }

  std::optional<Misfit> add_layer(LayerIndex layer, std::size_t core, const Residents& residents,
                                  PieceList& list) {
    const LayerWork& work = work_[layer];
    if (!gave_up_) {
      for (const HeldStorage* held : loads_before_[static_cast<std::size_t>(layer)]) {
        add_edge_loads(*held, core, residents, list);
      }
      for (const std::int32_t copy : work.copies[core]) list.add_copy(layer, copy);
    }
    if (work.pieces[core].empty()) return std::nullopt;
    LayerOperands operands = operands_in_dram(inputs_, layer);
    const PlannedLayer& of = inputs_.layers[layer];
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
      operands.input_resident[i] = result_.held[of.inputs[i].storage].taken_by(layer, i);
    }
    operands.output_resident = result_.held[of.output.storage].written_by(layer);
    operands.in_part = true;
    std::vector<Piece> pieces = work.pieces[core];
    if (core < work.boxes.size()) {  // else parts of a transposition
      auto cut = cut_box(inputs_, layer, work.boxes[core], operands, room_at(layer));
      if (!cut.ok()) return no_room(layer, cut.error());
      pieces = std::move(*cut);
    }
    if (of.output.images() > 1 && !operands.by_image && find_unfit(operands, residents, pieces)) {
      // Rows of several images that lie apart: image by image.
      if (auto misfit = cut_by_image(layer, core, residents, operands, pieces)) return misfit;
    }
    if (auto unfit = find_unfit(operands, residents, pieces)) {
      return give_up(std::move(*unfit), of);
    }
    if (gave_up_) return std::nullopt;
    if (operands.output_resident) {
      for (Piece& piece : pieces) mark_stores(core, piece, &piece == &pieces.back(), residents);
    }
    list.add_layer(std::move(pieces), operands);
    return std::nullopt;
  }

  static Misfit no_room(LayerIndex layer, const Error& error) {
    const bool room_helps = error.code == ErrorCode::kDoesNotFit;
    return Misfit{error, room_helps ? layer : INT32_MAX, room_helps ? layer : -1};
  }
  static Error no_surface(const PlannedLayer& layer) {
    return {ErrorCode::kInternal, fmt::format("layer '{}': an operand has no surface", layer.name)};
  }
  Misfit give_up(Unfit unfit, const PlannedLayer& layer) {
    unfit_ = unfit;
    return {no_surface(layer), 0, 0};
  }

  // Not where kernels, which come once for all images, would come again with each.
  std::optional<Misfit> cut_by_image(LayerIndex layer, std::size_t core, const Residents& residents,
                                     LayerOperands& operands, std::vector<Piece>& pieces) {
    const PlannedLayer& of = inputs_.layers[layer];
    Unfit unfit = *find_unfit(operands, residents, pieces);
    if (of.kind == LayerKind::kTranspose) return give_up(unfit, of);
    operands.by_image = true;
    auto cut = cut_box(inputs_, layer, work_[layer].boxes[core], operands, room_at(layer));
    if (!cut.ok()) return no_room(layer, cut.error());
    pieces = std::move(*cut);
    if (kernel_bytes(of, pieces) > inputs_.chip.neural.kernel_bytes_per_partition) {
      return give_up({.storage = unfit.storage, .why = HandOver::kKernels}, of);
    }
    return std::nullopt;
  }

  // A partition, of all slices that the pieces have.
  static std::int64_t kernel_bytes(const PlannedLayer& layer, const std::vector<Piece>& pieces) {
    std::set<std::int32_t> slices;
    std::int64_t bytes = 0;
    for (const Piece& piece : pieces) {
      if (piece.slice < 0 || !slices.insert(piece.slice).second) continue;
      bytes += layer.slices[static_cast<std::size_t>(piece.slice)].bytes_per_partition;
    }
    return bytes;
  }

  void add_edge_loads(const HeldStorage& held, std::size_t core, const Residents& residents,
                      PieceList& list) const {
    std::vector<StorageView> views;
    for (const PlaneRegion& load : held.cores[core].loads) {
      add_views(held.plane.view(load), residents, views);
    }
    list.add_loads(held.load_layer, views);
  }

  // The view, or each of its images where they lie too far apart in the block for one transfer.
  void add_views(const StorageView& view, const Residents& residents,
                 std::vector<StorageView>& views) const {
    if (residents[view.storage].layout.map(view)) {
      views.push_back(view);
      return;
    }
    for (std::int64_t image = 0; image < view.images(); ++image) {
      views.push_back(view.part(kImages, image, 1));
    }
  }

  // A storage of which engines cannot walk what a piece wants of its block.
  std::optional<Unfit> find_unfit(const LayerOperands& operands, const Residents& residents,
                                  const std::vector<Piece>& pieces) const {
    for (const Piece& piece : pieces) {
      const PlannedLayer& layer = inputs_.layers[piece.layer];
      const auto fits = [&](const StorageView& view, Start start) {
        return fit_view(residents[view.storage].layout, view, start) == Fit::kWhole;
      };
      if (operands.output_resident && !fits(piece.output.view, start_of_output(layer))) {
        return Unfit{.storage = piece.output.view.storage};
      }
      for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
        if (!operands.input_resident[i]) continue;
        const StorageView& view = piece.inputs[i].view;
        if (!fits(view, start_of_inputs(layer))) {
          return Unfit{.storage = view.storage, .reader = std::pair{piece.layer, i}};
        }
      }
    }
    return std::nullopt;
  }

  // `last`: of the layer's pieces on this core.
  void mark_stores(std::size_t core, Piece& piece, bool last, const Residents& residents) const {
    if (piece.part.keeps) return;
    const HeldStorage& held = result_.held[piece.output.view.storage];
    const HeldPart& part = held.cores[core];
    if (held.gathered) {
      piece.output.transfer = false;
      if (!last || piece.layer != held.writers.back()) return;
      const std::vector<PlaneRegion> written{part.written};
      for (const PlaneRegion& store : held.stored ? written : part.stores) {
        add_views(held.plane.view(store), residents, piece.edges);
      }
      return;
    }
    const PlaneRegion made = *held.plane.region(piece.output.view);
    piece.output.transfer = held.stored;
    if (held.stored) return;
    for (const PlaneRegion& store : part.stores) {
      const PlaneRegion edge = intersection(made, store);
      if (!edge.empty()) add_views(held.plane.view(edge), residents, piece.edges);
    }
  }

  PieceRoom room_at(LayerIndex layer) const {
    PieceRoom room;
    room.allowed = std::max<std::int64_t>(0, capacity() - held_bytes(layer));
    room.wanted = room.allowed / 2;
    const std::int64_t budget = inputs_.options.tile_budget_bytes;
    if (budget > 0) room.wanted = std::min(room.wanted, budget);
    return room;
  }

  const PlanInputs& inputs_;
  const Table<LayerIndex, LayerWork>& work_;
  const std::size_t cores_;
  CorePlans result_;
  std::optional<Unfit> unfit_;
  bool gave_up_ = false;  // the attempt has found some, and ends without a plan
  // Of the attempt, by layer.
  std::vector<std::int64_t> held_bytes_;
  std::vector<std::vector<const HeldStorage*>> loads_before_;
};

}  // namespace

Result<CorePlans> plan_cores(const PlanInputs& inputs, const Table<LayerIndex, LayerWork>& work,
                             bool hand_over) {
  return CorePlanner(inputs, work, hand_over).run();
}

}  // namespace tessera::compile
