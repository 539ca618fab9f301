#include "compile/find_cascade.h"

#include <algorithm>

#include "arch/dram_config.h"
#include "base/quantity.h"
#include "compile/cascade_schedule.h"
#include "compile/residency.h"
#include "compile/surface_conventions.h"

namespace tessera::compile {
namespace {

// Slots worth trying: fewer slots are longer, and need larger rings.
constexpr std::int64_t kSlotsTried[] = {2,  3,  4,  5,  6,  8,   10,  12,  16,  20, 24,
                                        32, 40, 48, 64, 96, 128, 160, 192, 256, 320};

// Grows a cascade layer by layer.
class Growth {
 public:
  Growth(const PlanInputs& inputs, const CascadeContext& context)
      : inputs_(inputs), context_(context) {}

  const Cascade& cascade() const { return cascade_; }

  // False if the layer cannot follow.
  bool add(std::int32_t index) {
    const PlannedLayer& layer = layer_at(index);
    if (layer.kind == LayerKind::kCopy && layer.copies.empty()) return true;  // a view: no work
    if (layer.kind != LayerKind::kNeural && layer.kind != LayerKind::kPlanar) return false;
    if (!cuts_by_rows(layer) || layer.output.rows() < 2) return false;
    CascadeMember member{.layer = index, .inputs = {}, .output = {}};
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const auto operand = place_input(layer, index, i);
      if (!operand) return false;
      member.inputs.push_back(*operand);
      if (operand->writer >= 0) {
        // A product runs beside the products that it waits for, one slot behind them.
        const std::int64_t behind = layer.kind == LayerKind::kNeural ? 1 : 0;
        const auto writer = static_cast<std::size_t>(operand->writer);
        member.delay = std::max(member.delay, cascade_.members[writer].delay + behind);
      }
    }
    if (!context_.output_resident(index)) {
      if (fit_output(layout_of(layer.output, 1), layer) != Fit::kWhole) return false;
      member.output = {Passage::kRing, static_cast<std::int32_t>(cascade_.rings.size())};
      cascade_.rings.push_back(
          {.view = layer.output, .writer = static_cast<std::int32_t>(cascade_.members.size())});
    }
    cascade_.members.push_back(std::move(member));
    return true;
  }

 private:
  const PlannedLayer& layer_at(std::int32_t index) const { return inputs_.layers[index]; }
  BufferLayout layout_of(const StorageView& view, std::int64_t rows) const {
    const Format format = inputs_.storages.storages[view.storage].format;
    return {view, format, inputs_.chip.state_buffer.partitions, rows};
  }

  std::optional<CascadeOperand> place_input(const PlannedLayer& layer, std::int32_t index,
                                            std::size_t input) {
    const StorageView& view = layer.inputs[input];
    if (context_.input_resident(index, input)) return resident_input(view);
    for (std::size_t r = 0; r < cascade_.rings.size(); ++r) {
      const Ring& ring = cascade_.rings[r];
      const auto number = static_cast<std::int32_t>(r);
      if (ring.writer < 0 && ring.view == view) {
        return CascadeOperand{view.strides[kRows] == 0 ? Passage::kWhole : Passage::kRing, number};
      }
      if (ring.writer >= 0 && same_rows(view, ring.view) &&
          fit_input(layout_of(ring.view, 1), layer, input) == Fit::kWhole) {
        return CascadeOperand{Passage::kRing, number, ring.writer};
      }
    }
    if (is_written(view.storage)) return std::nullopt;
    const Passage passage = view.strides[kRows] == 0 ? Passage::kWhole : Passage::kRing;
    const BufferLayout layout = layout_of(view, passage == Passage::kRing ? 1 : 0);
    if (fit_input(layout, layer, input) != Fit::kWhole) return std::nullopt;
    cascade_.rings.push_back({.view = view});
    return CascadeOperand{passage, static_cast<std::int32_t>(cascade_.rings.size()) - 1};
  }

  // A resident that a member writes has to be read in the rows in which it is written.
  std::optional<CascadeOperand> resident_input(const StorageView& view) const {
    CascadeOperand operand;
    for (std::size_t m = 0; m < cascade_.members.size(); ++m) {
      const StorageView& written = layer_at(cascade_.members[m].layer).output;
      if (written.storage != view.storage) continue;
      if (operand.writer >= 0 || !same_rows(view, written) || !layout_of(written, 0).map(view)) {
        return std::nullopt;
      }
      operand.writer = static_cast<std::int32_t>(m);
    }
    return operand;
  }

  static bool same_rows(const StorageView& read, const StorageView& written) {
    return read.storage == written.storage && read.rows() == written.rows() &&
           read.strides[kRows] == written.strides[kRows];
  }

  bool is_written(StorageIndex storage) const {
    return std::any_of(
        cascade_.members.begin(), cascade_.members.end(),
        [&](const CascadeMember& m) { return layer_at(m.layer).output.storage == storage; });
  }

  const PlanInputs& inputs_;
  const CascadeContext& context_;
  Cascade cascade_;
};

// What a cascade saves and costs, in cycles of the memory channel and of the engines.
class Balance {
 public:
  Balance(const PlanInputs& inputs, const Cascade& cascade) : inputs_(inputs), cascade_(cascade) {}

  std::int64_t gain() const {
    const std::int64_t bytes = saved_bytes() - kernel_bytes_again();
    return dram_costs(inputs_.chip).whole_cycles(bytes) - start_cycles();
  }

  // Products of a slot keep the array busy for longer than they take to start. What the planar engine filters has
  // no weights to load, and starts at once.
  bool slots_are_long() const {
    for (const CascadeStep& step : cascade_.steps) {
      if (step.member < 0) continue;
      const PlannedLayer& layer = layer_of(step.member);
      if (!layer.on_array()) continue;
      const std::int64_t rows = ceil_div(layer.output.rows(), cascade_.slots);
      const std::int64_t pixels = rows * layer.output.columns();
      if (pixels < std::int64_t{2} * inputs_.chip.neural.rows) return false;
    }
    return true;
  }

 private:
  const PlannedLayer& layer_of(std::int32_t member) const {
    return inputs_.layers[cascade_.members[static_cast<std::size_t>(member)].layer];
  }

  std::int64_t dram_bytes(const StorageView& view) const {
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < 4; ++i) elements *= view.strides[i] == 0 ? 1 : view.extents[i];
    return elements * format_bytes(inputs_.storages.storages[view.storage].format);
  }

  std::int64_t saved_bytes() const {
    std::int64_t saved = 0;
    Table<RingIndex, bool> loaded(cascade_.rings.size(), false);
    for (const CascadeMember& member : cascade_.members) {
      const PlannedLayer& layer = inputs_.layers[member.layer];
      for (std::size_t i = 0; i < member.inputs.size(); ++i) {
        const std::int32_t ring = member.inputs[i].ring;
        if (ring < 0) continue;
        const auto r = static_cast<std::size_t>(ring);
        if (cascade_.rings[r].writer >= 0 || loaded[r]) saved += dram_bytes(layer.inputs[i]);
        loaded[r] = true;
      }
    }
    for (const Ring& ring : cascade_.rings) {
      if (ring.writer >= 0 && !ring.leaves) saved += dram_bytes(ring.view);
    }
    return saved;
  }

  // Kernels that do not stay in kernel memory from slot to slot.
  std::int64_t kernel_bytes_again() const {
    std::int64_t total = 0;
    std::int64_t largest = 0;
    for (const CascadeMember& member : cascade_.members) {
      const PlannedLayer& layer = inputs_.layers[member.layer];
      if (layer.kind != LayerKind::kNeural) continue;
      const std::int64_t bytes = round_up(layer.slices[0].bytes_per_partition, 64);
      total += bytes;
      largest = std::max(largest, bytes);
    }
    if (total + largest <= inputs_.chip.neural.kernel_bytes_per_partition) return 0;
    return (cascade_.slots - 1) * total * inputs_.chip.neural.rows;
  }

  // Every piece starts anew; one of each layer would anyway.
  std::int64_t start_cycles() const {
    const ChipConfig& chip = inputs_.chip;
    std::int64_t cycles = 0;
    for (const CascadeStep& step : cascade_.steps) {
      if (step.member < 0) {
        cycles += chip.dma.task_start_cycles;
      } else if (layer_of(step.member).kind == LayerKind::kNeural) {
        cycles += chip.neural.task_start_cycles + chip.neural.rows;
      } else {
        cycles += chip.planar.task_start_cycles + chip.planar.latency_cycles;
      }
    }
    return cycles;
  }

  const PlanInputs& inputs_;
  const Cascade& cascade_;
};

// The longest slots whose rings take at most `bytes`; false if none do.
bool choose_slots(const PlanInputs& inputs, std::int64_t bytes, Cascade& cascade) {
  std::int64_t rows = 0;
  for (const CascadeMember& member : cascade.members) {
    rows = std::max(rows, inputs.layers[member.layer].output.rows());
  }
  const std::int64_t at_least = cascade.slots;  // more layers never make do with fewer
  const auto fits = [&](std::int64_t slots) {
    schedule_cascade(inputs, slots, cascade);
    return cascade.bytes <= bytes;
  };
  for (const std::int64_t slots : kSlotsTried) {
    if (slots >= rows) break;
    if (slots >= at_least && fits(slots)) return true;
  }
  return fits(rows);  // a row per slot
}

bool fit_rings(const PlanInputs& inputs, const PieceRoom& room, std::int64_t at_least,
               Cascade& cascade) {
  for (const bool overlap : {true, false}) {
    cascade.overlap = overlap;
    for (const std::int64_t bytes : {room.wanted, room.allowed}) {
      cascade.slots = overlap ? at_least : 0;
      if (choose_slots(inputs, bytes, cascade)) return true;
    }
  }
  return false;
}

}  // namespace

std::optional<Cascade> find_cascade(const PlanInputs& inputs, const CascadeContext& context,
                                    std::int32_t first) {
  const PlannedLayer& begin = inputs.layers[first];
  if (begin.kind != LayerKind::kNeural && begin.kind != LayerKind::kPlanar) return std::nullopt;
  if (context.output_resident(first)) return std::nullopt;
  Growth growth(inputs, context);
  std::optional<Cascade> best;
  std::int64_t best_gain = 0;
  std::int64_t slots = 0;  // of the longest cascade so far
  const std::int32_t end = context.cascade_end(first) + 1;
  for (std::int32_t index = first; index < end; ++index) {
    const std::size_t members = growth.cascade().members.size();
    if (context.alone(index) || !growth.add(index)) break;
    if (growth.cascade().members.size() == members || index == first) continue;
    Cascade candidate = growth.cascade();
    for (Ring& ring : candidate.rings) {
      if (ring.writer < 0) continue;
      const CascadeMember& writer = candidate.members[ring.writer];
      ring.leaves = context.read_after(writer.layer, index);
    }
    if (!fit_rings(inputs, context.room(first, index), slots, candidate)) break;
    if (candidate.overlap) slots = candidate.slots;
    const Balance balance(inputs, candidate);
    if (!balance.slots_are_long()) break;
    const std::int64_t gain = balance.gain();
    if (gain > best_gain) {
      best_gain = gain;
      best = std::move(candidate);
    }
  }
  return best;
}

}  // namespace tessera::compile
