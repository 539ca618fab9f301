#include "compile/make_plan.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/cascade.h"
#include "compile/early_outputs.h"
#include "compile/find_cascade.h"
#include "compile/homes.h"
#include "compile/piece_list.h"
#include "compile/pieces.h"
#include "compile/residency.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Attempts with fewer and fewer residents, until everything has a place.
class Planner : private CascadeContext {
 public:
  Planner(const PlanInputs& inputs, const Table<LayerIndex, LayerIndex>& cascade_ends,
          const PlanChoices& choices)
      : inputs_(inputs),
        residents_(find_residents(inputs)),
        moves_after_(find_moves_after(residents_, inputs.layers.size())),
        resident_bytes_(residents_, inputs.layers.size()),
        last_reads_(find_last_reads(inputs)),
        capacity_(inputs.chip.state_buffer.bytes_per_partition),
        cascade_ends_(cascade_ends),
        passing_(choices.passing),
        early_outputs_(choices.early_outputs),
        alone_(inputs.layers.size(), !inputs.options.resident || !inputs.options.cascades) {
    for (Resident& resident : residents_) {
      resident.active = resident.possible && inputs.options.resident &&
                        resident.layout.bytes() <= capacity_ / passing_.resident_part;
    }
    find_passed();
  }

  Result<Plan> run() {
    for (;;) {
      PieceList list(inputs_, residents_);
      resident_bytes_ = ResidentBytes(residents_, inputs_.layers.size());
      const std::optional<Misfit> misfit = attempt(list);
      list.plan().passes_by = passes_by_;
      if (!misfit) return std::move(list.plan());
      if (misfit->error.code == ErrorCode::kUnavailable) return misfit->error;  // no time is left
      if (!demote(*misfit) && !take_apart(*misfit)) return misfit->error;
    }
  }

 private:
  const Storage& storage(StorageIndex index) const { return inputs_.storages.storages[index]; }
  const Resident& resident(StorageIndex index) const { return residents_[index]; }
  const PlannedLayer& layer(std::int32_t index) const { return inputs_.layers[index]; }

  bool lives_at(const Resident& resident, std::int32_t index) const {
    return resident.active && resident.first_layer <= index && index <= resident.last_layer;
  }

  bool input_resident(std::int32_t index, std::size_t input) const override {
    const StorageView& view = layer(index).inputs[input];
    const Resident& from = resident(view.storage);
    return lives_at(from, index) && fit_input(from.layout, layer(index), input) != Fit::kNone;
  }
  bool output_resident(std::int32_t index) const override {
    return resident(layer(index).output.storage).active;
  }
  bool read_after(std::int32_t writer, std::int32_t index) const override {
    return last_reads_[layer(writer).output.storage] > index;
  }
  bool alone(std::int32_t index) const override { return alone_[index]; }
  std::int32_t cascade_end(std::int32_t first) const override { return cascade_ends_[first]; }
  // Some room is left for loads of the layers behind, unless somebody set a budget.
  PieceRoom room(std::int32_t first, std::int32_t last) const override {
    PieceRoom room = room_at(first, last);
    room.allowed = inputs_.options.tile_budget_bytes > 0 ? room.wanted : room.allowed / 4 * 3;
    if (passing_.wide_rings) room.wanted = room.allowed;
    return room;
  }

  // Takes what is passed on out of the residents.
  void find_passed() {
    Table<StorageIndex, std::int32_t> behind(residents_.size(), 0);  // layers behind the input
    for (LayerIndex at = 0; at < std::ssize(inputs_.layers) && passing_.layers > 0; ++at) {
      if (layer(at).inputs.empty() || layer(at).kind == LayerKind::kHost) continue;
      const StorageIndex from = layer(at).inputs[0].storage;
      Resident& made = residents_[layer(at).output.storage];
      const bool of_input = !residents_[from].written || behind[from] > 0;
      if (!of_input || (made.active && !passes_by(made, behind[from]))) continue;
      behind[layer(at).output.storage] = behind[from] + 1;
      passes_by_ = passes_by_ || made.active;
      made.active = false;
    }
  }

  // What one layer makes, for the next one alone, of an input that comes in pieces. Resident, it keeps
  // the second waiting for the last piece, whose blocks its results get; a cascade of both goes on as
  // the input comes. The same of what is made of that, so many layers `behind` the input.
  bool passes_by(const Resident& of, std::int32_t behind) const {
    const bool read_again = last_reads_[layer(of.first_layer).output.storage] != of.last_layer;
    if (!inputs_.options.cascades || read_again || !of.moves.empty() || behind >= passing_.layers) {
      return false;
    }
    for (LayerIndex between = of.first_layer + 1; between < of.last_layer; ++between) {
      if (layer(between).kind != LayerKind::kCopy || !layer(between).copies.empty()) return false;
    }
    const PlannedLayer& maker = layer(of.first_layer);
    const PlannedLayer& reader = layer(of.last_layer);
    const auto streams = [](const PlannedLayer& stage) {
      return (stage.kind == LayerKind::kNeural || stage.kind == LayerKind::kPlanar) &&
             cuts_by_rows(stage) && stage.output.rows() > 1;
    };
    if (of.first_layer == of.last_layer || !streams(maker) || !streams(reader)) return false;
    if (behind > 0) return true;
    const StorageView& source = maker.inputs[0];
    const std::int64_t room = (capacity_ - of.layout.bytes()) / 2;
    const BufferLayout whole(source, storage(source.storage).format,
                             inputs_.chip.state_buffer.partitions);
    return whole.bytes() > room;
  }

  std::optional<Misfit> attempt(PieceList& list) const {
    const auto count = static_cast<std::int32_t>(inputs_.layers.size());
    for (std::int32_t index = 0; index < count; ++index) {
      if (const Status status = watched(inputs_.options.watch, "make_plan", index, count);
          !status.ok()) {
        return Misfit{status.error(), index, index};
      }
      const LayerKind kind = layer(index).kind;
      if (kind == LayerKind::kCopy || kind == LayerKind::kHost) {
        list.add_copies(index);
        list.add_moves(moves_after_[index]);
        continue;
      }
      if (const auto cascade = find_cascade(inputs_, *this, index)) {
        list.plan().cascades.push_back({index, cascade->last_layer()});
        list.add_cascade(*cascade);
        for (; index < cascade->last_layer(); ++index) list.add_moves(moves_after_[index]);
        list.add_moves(moves_after_[index]);
        continue;
      }
      const LayerOperands operands = find_operands(index);
      auto pieces = cut_layer(inputs_, index, operands, room_at(index, index));
      if (!pieces.ok()) {
        // More room does not help where the tile budget is too small.
        const bool room_helps = pieces.error().code == ErrorCode::kDoesNotFit;
        return Misfit{pieces.error(), room_helps ? index : INT32_MAX, room_helps ? index : -1};
      }
      list.add_layer(std::move(*pieces), operands);
      list.add_moves(moves_after_[index]);
    }
    if (early_outputs_) {
      const std::vector<PieceIndex> order = early_outputs(inputs_, list.plan());
      if (!order.empty()) list.reorder(order);
    }
    mark_stores(inputs_, list.plan());
    if (auto misfit = list.place()) return misfit;
    return place_homes(inputs_, list.plan());
  }

  LayerOperands find_operands(std::int32_t index) const {
    const PlannedLayer& of = layer(index);
    LayerOperands operands;
    operands.by_image = of.dynamic;
    const auto check = [&](const StorageView& view, bool is_resident, Fit fit) {
      if (!is_resident) {
        fit = fit_view(
            BufferLayout(view, storage(view.storage).format, inputs_.chip.state_buffer.partitions),
            view, Start::kFirstPartition);
      }
      TESSERA_CHECK(fit != Fit::kNone, "layer '{}': an operand has no surface", of.name);
      operands.by_image = operands.by_image || fit == Fit::kByImage;
    };
    for (std::size_t i = 0; i < of.inputs.size(); ++i) {
      const bool taken = input_resident(index, i);
      operands.input_resident.push_back(taken);
      check(of.inputs[i], taken,
            taken ? fit_input(resident(of.inputs[i].storage).layout, of, i) : Fit::kNone);
    }
    const Resident& to = resident(of.output.storage);
    operands.output_resident = to.active;
    check(of.output, to.active, to.active ? fit_output(to.layout, of) : Fit::kNone);
    return operands;
  }

  // What the residents that live at some time within these layers leave.
  PieceRoom room_at(std::int32_t first, std::int32_t last) const {
    PieceRoom room;
    room.allowed = std::max<std::int64_t>(0, capacity_ - resident_bytes_.within(first, last));
    room.wanted = room.allowed / 2;
    if (inputs_.options.tile_budget_bytes > 0) {
      room.wanted = std::min(room.wanted, inputs_.options.tile_budget_bytes);
    }
    return room;
  }

  // Layer by layer, everything needs less at a time. False if no cascade is left there.
  bool take_apart(const Misfit& misfit) {
    bool changed = false;
    for (std::int32_t index = misfit.first_layer;
         index <= std::min<std::int32_t>(misfit.last_layer, std::ssize(alone_) - 1); ++index) {
      changed = changed || !alone(index);
      alone_[index] = true;
    }
    return changed;
  }

  // Gives up the resident that saves least for the room and time it takes there, or has it loaded later.
  bool demote(const Misfit& misfit) {
    Resident* worst = nullptr;
    double worst_score = 0;
    for (Resident& candidate : residents_) {
      if (!candidate.active || candidate.first_layer > misfit.last_layer ||
          candidate.last_layer < misfit.first_layer) {
        continue;
      }
      const double life = candidate.last_layer - candidate.first_layer + 1;
      const double score =
          life / (1 + candidate.uses) * static_cast<double>(candidate.layout.bytes());
      if (worst == nullptr || score > worst_score) {
        worst = &candidate;
        worst_score = score;
      }
    }
    if (worst == nullptr) return false;
    if (load_late(*worst)) {
      moves_after_ = find_moves_after(residents_, inputs_.layers.size());
    } else {
      worst->active = false;
    }
    return true;
  }

  const PlanInputs& inputs_;
  Residents residents_;
  MovesAfter moves_after_;
  ResidentBytes resident_bytes_;  // of the attempt that is made
  const Table<StorageIndex, LayerIndex> last_reads_;
  const std::int64_t capacity_;
  const Table<LayerIndex, LayerIndex>& cascade_ends_;
  const Passing passing_;
  const bool early_outputs_;
  Table<LayerIndex, bool> alone_;  // no cascade takes it
  bool passes_by_ = false;
};

}  // namespace

Result<Plan> make_plan(const PlanInputs& inputs, const Table<LayerIndex, LayerIndex>& cascade_ends,
                       const PlanChoices& choices) {
  return Planner(inputs, cascade_ends, choices).run();
}

}  // namespace tessera::compile
