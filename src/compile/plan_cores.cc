#include "compile/plan_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
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
    } else {
      result_.held = HeldStorages(inputs.storages.storages.size());
    }
  }

  Result<CorePlans> run() {
    leave_room();
    for (;;) {
      const std::optional<Misfit> misfit = attempt();
      if (!misfit) return std::move(result_);
      if (!demote_held(result_.held, misfit->first_layer, misfit->last_layer)) {
        return misfit->error;
      }
    }
  }

 private:
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
      const Residents residents = residents_of(core);
      PieceList list(inputs_, residents);
      for (LayerIndex layer = 0; layer < std::ssize(work_); ++layer) {
        if (auto misfit = add_layer(layer, core, residents, list)) return misfit;
      }
      if (auto misfit = list.place()) {
        misfit->error = misfit->error.with_context(fmt::format("core {}", core));
        return misfit;
      }
      list.plan().homes.assign(inputs_.storages.storages.size(), -1);
      result_.plans.push_back(std::move(list.plan()));
    }
    return std::nullopt;
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
    for (const HeldStorage* held : loads_before_[static_cast<std::size_t>(layer)]) {
      add_edge_loads(*held, core, list);
    }
    for (const std::int32_t copy : work.copies[core]) list.add_copy(layer, copy);
    if (work.pieces[core].empty()) return std::nullopt;
    LayerOperands operands = operands_in_dram(inputs_, layer);
    if (core >= work.boxes.size()) {  // parts of a transposition
      list.add_layer(work.pieces[core], operands);
      return std::nullopt;
    }
    const PlannedLayer& of = inputs_.layers[layer];
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
      operands.input_resident[i] = result_.held[of.inputs[i].storage].taken_by(layer, i);
    }
    operands.output_resident = result_.held[of.output.storage].active;
    auto pieces = cut_box(inputs_, layer, work.boxes[core], operands, room_at(layer));
    if (!pieces.ok()) {
      const bool room_helps = pieces.error().code == ErrorCode::kDoesNotFit;
      return Misfit{pieces.error(), room_helps ? layer : INT32_MAX, room_helps ? layer : -1};
    }
    for (Piece& piece : *pieces) {
      if (auto misfit = check_fit(operands, residents, piece)) return misfit;
      if (operands.output_resident) mark_stores(core, piece);
    }
    list.add_layer(std::move(*pieces), operands);
    return std::nullopt;
  }

  static void add_edge_loads(const HeldStorage& held, std::size_t core, PieceList& list) {
    std::vector<StorageView> views;
    for (const PlaneRegion& load : held.cores[core].loads) views.push_back(held.plane.view(load));
    list.add_loads(held.load_layer, views);
  }

  // Views of blocks that engines can walk; a storage whose views they cannot is given up.
  std::optional<Misfit> check_fit(const LayerOperands& operands, const Residents& residents,
                                  const Piece& piece) const {
    const PlannedLayer& layer = inputs_.layers[piece.layer];
    const auto fits = [&](const StorageView& view, Start start) {
      return fit_view(residents[view.storage].layout, view, start) == Fit::kWhole;
    };
    bool all = !operands.output_resident || fits(piece.output.view, start_of_output(layer));
    for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
      if (!operands.input_resident[i]) continue;
      all = all && fits(piece.inputs[i].view, start_of_inputs(layer));
    }
    if (all) return std::nullopt;
    return Misfit{
        {ErrorCode::kInternal, fmt::format("layer '{}': an operand has no surface", layer.name)},
        piece.layer,
        piece.layer};
  }

  void mark_stores(std::size_t core, Piece& piece) const {
    if (piece.part.keeps) return;
    const HeldStorage& held = result_.held[piece.output.view.storage];
    const PlaneRegion made = *held.plane.region(piece.output.view);
    piece.output.transfer = held.stored;
    if (held.stored) return;
    for (const PlaneRegion& store : held.cores[core].stores) {
      const PlaneRegion edge = intersection(made, store);
      if (!edge.empty()) piece.edges.push_back(held.plane.view(edge));
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
