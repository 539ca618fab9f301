#include "compile/transposition.h"

#include <algorithm>
#include <array>

#include "arch/cost.h"
#include "base/quantity.h"
#include "compile/estimate.h"
#include "compile/surface_conventions.h"
#include "isa/dma_time.h"

namespace tessera::compile {
namespace {

// Steps of a transfer, as tasks are emitted.
constexpr std::int64_t kStepsWanted = 24;
// Steps of a copy are no shorter: each waits for the memory twice, to be read and to be written.
constexpr std::int64_t kCopyStepBytes = 4096;

// The task of a whole view, as emit.cc makes it; in DRAM from the beginning of a region.
isa::TaskDescriptor transfer_task(const ChipConfig& chip, const StorageView& view, Format format,
                                  isa::EngineKind engine) {
  const auto extent = [&](std::size_t axis) {
    return static_cast<std::uint32_t>(view.strides[axis] == 0 ? 1 : view.extents[axis]);
  };
  const std::int64_t element = format_bytes(format);
  isa::TransferTask task;
  task.buffer.format = format;
  task.buffer.images = extent(kImages);
  task.buffer.channels = task.channel_count = extent(kChannels);
  task.buffer.rows = extent(kRows);
  task.buffer.columns = extent(kColumns);
  task.buffer.column_pitch = static_cast<std::uint32_t>(element);
  for (std::size_t i = 0; i < 4; ++i) {
    task.dram.strides[i] = extent(i) == 1 ? 0 : view.strides[i] * element;
  }
  const std::int64_t rows = std::max<std::int64_t>(
      chip.neural.psum_bank_columns / task.buffer.columns,
      ceil_div(std::int64_t{task.buffer.rows} * task.buffer.images, kStepsWanted));
  isa::TaskDescriptor result;
  result.engine = engine;
  result.bands = {task.buffer.images, task.buffer.rows,
                  static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows, 1, task.buffer.rows))};
  result.config = task;
  return result;
}

// A piece of the view that is one step in the source and one in the target.
struct Step {
  std::int64_t extent = 1;
  std::int64_t from = 0, to = 0;  // strides in elements of the storages
  std::int64_t channels = 0;      // of the block, a step
  bool source_channel = false;    // it walks over channels of the block
  bool source_unit = false;       // one channel per step
  bool target_channel = false;    // it walks over the view's channels
};

class PartCutter {
 public:
  PartCutter(const BufferLayout& layout, const BufferLayout& target, const StorageView& from,
             const StorageView& to, std::size_t parts_max)
      : layout_(layout), target_(target), from_(from), to_(to), parts_max_(parts_max) {}

  std::optional<std::vector<TransposePart>> run() {
    if (!collect()) return std::nullopt;
    choose();
    if (!exchanged()) return std::nullopt;
    sort_batch();
    for (std::size_t kept = std::min<std::size_t>(2, batch_.size()); !done_; --kept) {
      parts_.clear();
      if (unroll(kept, kept, from_.offset, to_.offset)) done_ = true;
      if (kept == 0) break;
    }
    if (!done_ || parts_.empty()) return std::nullopt;
    return std::move(parts_);
  }

 private:
  bool collect() {
    const auto steps = layout_.steps(from_);
    if (!steps) return false;
    for (const LayoutStep& step : *steps) {
      const std::int64_t whole = from_.strides[step.axis];
      Step result;
      result.extent = step.extent;
      result.from = step.stride;
      result.to = step.stride / whole * to_.strides[step.axis];
      result.source_channel = step.channels != 0;
      result.source_unit = step.channels == 1;
      result.target_channel = step.axis == kChannels;
      result.channels = step.channels;
      steps_.push_back(result);
    }
    while (merge_steps()) {
    }
    return true;
  }

  // Two steps that go on evenly on both sides are one: the heads of an attention and what each of
  // them holds.
  bool merge_steps() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      for (std::size_t j = 0; j < steps_.size(); ++j) {
        Step& inner = steps_[i];
        const Step& outer = steps_[j];
        if (i == j || outer.from != inner.from * inner.extent ||
            outer.to != inner.to * inner.extent ||
            outer.channels != inner.channels * inner.extent ||
            outer.target_channel != inner.target_channel) {
          continue;
        }
        inner.extent *= outer.extent;
        steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(j));
        return true;
      }
    }
    return false;
  }

  // The axes that are exchanged; all others are the batch.
  void choose() {
    const std::int64_t unit = to_.strides[kChannels];
    std::size_t source = steps_.size(), target = steps_.size();
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Step& step = steps_[i];
      if (step.source_unit && !step.target_channel) source = i;
      if (step.target_channel && step.to == unit && !step.source_channel) target = i;
      same_ = same_ || (step.source_unit && step.target_channel && step.to == unit);
    }
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i == source) {
        m_ = steps_[i];
      } else if (i == target) {
        n_ = steps_[i];
      } else {
        batch_.push_back(steps_[i]);
      }
    }
  }

  // Something moves between partitions and columns, and no axis is channels on both sides.
  bool exchanged() const { return !same_ && (m_.extent > 1 || n_.extent > 1); }

  // Axes that may be rows first, longest first; those over channels are unrolled.
  void sort_batch() {
    std::stable_sort(batch_.begin(), batch_.end(), [](const Step& a, const Step& b) {
      const bool a_free = !a.source_channel && !a.target_channel;
      const bool b_free = !b.source_channel && !b.target_channel;
      if (a_free != b_free) return a_free;
      return a.extent > b.extent;
    });
  }

  // Parts with the first `kept` batch axes as images and rows, one for each index of the others.
  bool unroll(std::size_t kept, std::size_t next, std::int64_t from, std::int64_t to) {
    if (parts_.size() >= parts_max_) return false;
    if (next < batch_.size()) {
      const Step& step = batch_[next];
      for (std::int64_t i = 0; i < step.extent; ++i) {
        if (!unroll(kept, next + 1, from + i * step.from, to + i * step.to)) return false;
      }
      return true;
    }
    TransposePart part;
    part.from = {.storage = from_.storage, .offset = from};
    part.to = {.storage = to_.storage, .offset = to};
    const auto set = [](StorageView& view, std::size_t axis, std::int64_t extent,
                        std::int64_t stride) {
      view.extents[axis] = extent;
      view.strides[axis] = extent == 1 ? 0 : stride;
    };
    set(part.from, kChannels, m_.extent, m_.from);
    set(part.from, kColumns, n_.extent, n_.from);
    set(part.to, kChannels, n_.extent, n_.to);
    set(part.to, kColumns, m_.extent, m_.to);
    for (std::size_t k = 0; k < kept; ++k) {
      const Step& step = batch_[k];
      if (step.source_channel || step.target_channel) return false;
      // Of two axes the one with the larger steps in the source is the images.
      const bool first = kept == 2 && (k == 0) == (batch_[0].from >= batch_[1].from);
      const std::size_t axis = first ? kImages : kRows;
      set(part.from, axis, step.extent, step.from);
      set(part.to, axis, step.extent, step.to);
    }
    if (!layout_.map(part.from) || !target_.map(part.to)) return false;
    parts_.push_back(part);
    return true;
  }

  const BufferLayout& layout_;
  const BufferLayout& target_;
  const StorageView& from_;
  const StorageView& to_;
  const std::size_t parts_max_;
  std::vector<Step> steps_, batch_;
  Step m_, n_;
  bool same_ = false, done_ = false;
  std::vector<TransposePart> parts_;
};

}  // namespace

const char* transposition_way_name(TranspositionWay way) {
  static constexpr const char* kNames[] = {"array", "planar", "dma"};
  return kNames[static_cast<std::size_t>(way)];
}

StorageView dense_view(const StorageView& view, StorageIndex storage) {
  StorageView dense{.storage = storage, .extents = view.extents};
  std::int64_t span = 1;
  for (const std::size_t axis : {kColumns, kRows, kImages, kChannels}) {
    if (view.extents[axis] == 1 || view.strides[axis] == 0) continue;
    dense.strides[axis] = span;
    span *= view.extents[axis];
  }
  return dense;
}

std::optional<std::vector<TransposePart>> cut_transposition(const BufferLayout& layout,
                                                            const StorageView& view,
                                                            const StorageView& target,
                                                            Format format, std::size_t parts_max) {
  const BufferLayout to(target, format, layout.partitions());
  return PartCutter(layout, to, view, target, parts_max).run();
}

Cycles array_transposition_cycles(const ChipConfig& chip, const std::vector<TransposePart>& parts) {
  Cycles cycles = 0;
  ProductWork work;
  work.transpose = true;
  work.partitions = chip.state_buffer.partitions;
  for (const TransposePart& part : parts) {
    work.channels = part.from.channels();
    work.output_channels = part.from.columns();
    cycles +=
        chip.neural.task_start_cycles + neural_first_load_cycles(chip.neural, work) +
        neural_step_cycles(chip.neural, work, {0, part.from.images() * part.from.rows(), true},
                           NeuralSharing::kBroadcast);
  }
  return cycles + neural_drain_cycles(chip.neural, work);
}

Cycles planar_transposition_cycles(const ChipConfig& chip,
                                   const std::vector<TransposePart>& parts) {
  Cycles cycles = chip.planar.latency_cycles;
  for (const TransposePart& part : parts) {
    cycles += chip.planar.task_start_cycles +
              planar_transpose_cycles(chip.planar, {.channels = part.from.channels(),
                                                    .columns = part.from.columns(),
                                                    .rows = part.from.images() * part.from.rows()});
  }
  return cycles;
}

std::int64_t transfer_bytes(const ChipConfig& chip, const StorageView& view, Format format) {
  return isa::dma_time(transfer_task(chip, view, format, isa::EngineKind::kLoad), chip).dram_bytes;
}

Cycles transfer_cycles(const ChipConfig& chip, const StorageView& view, Format format) {
  return isa::dma_time(transfer_task(chip, view, format, isa::EngineKind::kLoad), chip).transfer();
}

Cycles transfer_task_cycles(const ChipConfig& chip, const StorageView& view, Format format) {
  return estimate_task(transfer_task(chip, view, format, isa::EngineKind::kLoad), chip);
}

isa::TaskDescriptor copy_task(const PlannedCopy& copy, Format format) {
  const std::int64_t element = format_bytes(format);
  isa::CopyTask task;
  task.fill = copy.fill;
  task.fill_bits = copy.fill_bits;
  task.element_bytes = static_cast<std::uint32_t>(element);
  std::int64_t bytes = element;
  for (std::size_t i = 0; i < copy.to.extents.size(); ++i) {
    if (copy.to.extents[i] == 1) continue;
    bytes *= copy.to.extents[i];
    task.extents.push_back(copy.to.extents[i]);
    task.source_strides.push_back(copy.fill ? 0 : copy.from.strides[i] * element);
    task.destination_strides.push_back(copy.to.strides[i] * element);
  }
  if (task.extents.empty()) {
    task.extents = {1};
    task.source_strides = task.destination_strides = {0};
  }
  const std::int64_t rows = task.extents[0];
  const std::int64_t steps = std::clamp<std::int64_t>(bytes / kCopyStepBytes, 1, kStepsWanted);
  isa::TaskDescriptor result;
  result.engine = isa::EngineKind::kStore;
  result.bands = {1, static_cast<std::uint32_t>(rows),
                  static_cast<std::uint32_t>(ceil_div(rows, steps))};
  result.config = std::move(task);
  return result;
}

Cycles copy_task_cycles(const ChipConfig& chip, const PlannedCopy& copy, Format format) {
  return estimate_task(copy_task(copy, format), chip);
}

DmaTransposition dma_transposition(const ChipConfig& chip, const StorageView& view, Format format) {
  const isa::DmaTime load =
      isa::dma_time(transfer_task(chip, view, format, isa::EngineKind::kLoad), chip);
  const isa::DmaTime store = isa::dma_time(
      transfer_task(chip, dense_view(view, view.storage), format, isa::EngineKind::kStore), chip);
  return {.cycles = store.cycles + load.cycles, .bytes = store.dram_bytes + load.dram_bytes};
}

bool planar_can_turn(const BufferLayout& layout, const BufferLayout& target,
                     const std::vector<TransposePart>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const TransposePart& part) {
    return layout.map(part.from)->channel_first == 0 && target.map(part.to)->channel_first == 0;
  });
}

std::int64_t part_bytes(const TransposePart& part, const PartRoom& room) {
  std::int64_t bytes = 0;
  if (!room.from_resident) bytes += view_bytes(part.from, room.format, room.partitions);
  if (room.exchanged && !room.to_resident)
    bytes += view_bytes(part.to, room.format, room.partitions);
  return bytes + 2 * 64;  // alignment
}

bool split_part(const TransposePart& part, const PartRoom& room,
                std::vector<TransposePart>& parts) {
  if (part_bytes(part, room) <= room.room) {
    parts.push_back(part);
    return true;
  }
  // The larger of channels and columns is cut first, in whole blocks.
  const bool columns_first = part.from.columns() >= part.from.channels();
  const std::size_t order[] = {kImages, kRows, columns_first ? kColumns : kChannels,
                               columns_first ? kChannels : kColumns};
  for (const std::size_t axis : order) {
    const std::int64_t extent = part.from.extents[axis];
    std::int64_t first = ceil_div(extent, 2);
    if (axis == kChannels || axis == kColumns) first = round_up(first, room.partitions);
    if (extent == 1 || first >= extent) continue;
    std::size_t mirrored = axis;
    if (room.exchanged && axis == kChannels) mirrored = kColumns;
    if (room.exchanged && axis == kColumns) mirrored = kChannels;
    const TransposePart head{part.from.part(axis, 0, first), part.to.part(mirrored, 0, first)};
    const TransposePart tail{part.from.part(axis, first, extent - first),
                             part.to.part(mirrored, first, extent - first)};
    return split_part(head, room, parts) && split_part(tail, room, parts);
  }
  return false;
}

}  // namespace tessera::compile
