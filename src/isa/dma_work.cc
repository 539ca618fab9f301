#include "isa/dma_work.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "arch/cost.h"
#include "arch/dram_config.h"

namespace tessera::isa {
namespace {

struct StepAxis {
  std::int64_t extent = 1, order = 0, other = 0;  // strides on both sides
};

// Axes of a step before they are sorted and merged.
struct Grid {
  std::array<StepAxis, kRunAxesMax> axes;
  int count = 0;
  std::int64_t address = 0, other_address = 0;
  std::int64_t run_bytes = 0;
  bool both = false;  // the other side matters too

  void add(std::int64_t extent, std::int64_t order, std::int64_t other) {
    if (extent == 1) return;
    // Walk upwards: the last element first where a stride is negative.
    if (order < 0) {
      address += order * (extent - 1);
      other_address += other * (extent - 1);
      order = -order;
      other = -other;
    }
    axes[static_cast<std::size_t>(count++)] = {extent, order, other};
  }
};

bool touches(const StepAxis& outer, const StepAxis& inner, bool both) {
  return outer.order == inner.order * inner.extent &&
         (!both || outer.other == inner.other * inner.extent);
}

void sort_and_merge(Grid& grid) {
  const auto begin = grid.axes.begin();
  // A handful of axes: insertion keeps equal strides in place and allocates nothing.
  for (int i = 1; i < grid.count; ++i) {
    for (int j = i; j > 0; --j) {
      StepAxis& left = grid.axes[static_cast<std::size_t>(j - 1)];
      StepAxis& right = grid.axes[static_cast<std::size_t>(j)];
      if (left.order >= right.order) break;
      std::swap(left, right);
    }
  }
  while (grid.count > 0) {
    const StepAxis& last = *(begin + grid.count - 1);
    if (last.order != grid.run_bytes || (grid.both && last.other != grid.run_bytes)) break;
    grid.run_bytes *= last.extent;
    --grid.count;
  }
  int kept = 0;
  for (int i = 0; i < grid.count; ++i) {
    const StepAxis axis = *(begin + i);
    if (kept > 0 && touches(*(begin + kept - 1), axis, grid.both)) {
      StepAxis& outer = *(begin + kept - 1);
      outer = {outer.extent * axis.extent, axis.order, axis.other};
    } else {
      *(begin + kept++) = axis;
    }
  }
  grid.count = kept;
}

void fill_runs(const Grid& grid, bool other, StridedRuns& runs) {
  runs.address = other ? grid.other_address : grid.address;
  runs.run_bytes = grid.run_bytes;
  runs.axes = grid.count;
  for (int i = 0; i < grid.count; ++i) {
    const auto a = static_cast<std::size_t>(i);
    runs.extents[a] = grid.axes[a].extent;
    runs.strides[a] = other ? grid.axes[a].other : grid.axes[a].order;
  }
}

// Whether all runs begin at the same place within `alignment` bytes.
bool alike(const StridedRuns& runs, std::int64_t alignment) {
  for (int i = 0; i < runs.axes; ++i) {
    if (runs.strides[static_cast<std::size_t>(i)] % alignment != 0) return false;
  }
  return true;
}

void cut_pieces(const ChipConfig& chip, const DramPieces& most, DmaStep& plan) {
  const StridedRuns& runs = plan.writes ? plan.write : plan.read;
  plan.run_bytes = runs.run_bytes;
  plan.runs = runs.runs();
  if (plan.run_bytes > most.bytes) {
    plan.piece_bytes = plan.first_piece_bytes = most.bytes;
    if (alike(runs, most.alignment)) plan.first_piece_bytes -= runs.address % most.alignment;
    plan.pieces_per_run = 1 + ceil_div(plan.run_bytes - plan.first_piece_bytes, most.bytes);
    plan.runs_per_piece = 1;
    plan.pieces = plan.runs * plan.pieces_per_run;
  } else {
    // A run shorter than a burst still moves a burst.
    const std::int64_t moved = std::max(plan.run_bytes, dram_burst_bytes(chip));
    plan.pieces_per_run = 1;
    plan.runs_per_piece = std::max<std::int64_t>(1, most.bytes / moved);
    plan.pieces = ceil_div(plan.runs, plan.runs_per_piece);
  }
}

void plan_transfer(const TransferTask& task, bool load, std::int64_t image, RowRange rows,
                   const DramPlaces& places, const ChipConfig& chip, DmaStep& plan) {
  Grid grid;
  const auto& strides = task.dram.strides;
  grid.address = places.address(task.dram.address) + image * strides[0] + rows.first * strides[2];
  grid.run_bytes = format_bytes(task.buffer.format);
  plan.expansion = 1;
  const auto axis = [&](std::int64_t extent, std::int64_t stride) {
    if (stride == 0) {
      plan.expansion *= extent;
    } else {
      grid.add(extent, stride, 0);
    }
  };
  axis(task.channel_count, strides[1]);
  axis(rows.last - rows.first, strides[2]);
  axis(task.buffer.columns, strides[3]);
  sort_and_merge(grid);
  plan.scatter_bytes = scatter_bytes(task, chip);
  plan.reads = load;
  plan.writes = !load;
  fill_runs(grid, false, load ? plan.read : plan.write);
}

void plan_copy(const CopyTask& task, RowRange rows, const DramPlaces& places, DmaStep& plan) {
  Grid grid;
  grid.both = !task.fill;
  grid.run_bytes = task.element_bytes;
  grid.address = places.address(task.destination) + rows.first * task.destination_strides[0];
  if (!task.fill) {
    grid.other_address = places.address(task.source) + rows.first * task.source_strides[0];
  }
  for (std::size_t i = 0; i < task.extents.size(); ++i) {
    grid.add(i == 0 ? rows.last - rows.first : task.extents[i], task.destination_strides[i],
             task.fill ? 0 : task.source_strides[i]);
  }
  sort_and_merge(grid);
  plan.reads = !task.fill;
  plan.writes = true;
  plan.expansion = 1;
  fill_runs(grid, false, plan.write);
  if (plan.reads) fill_runs(grid, true, plan.read);
}

void plan_kernel(const KernelTask& task, const DramPlaces& places, const ChipConfig& chip,
                 DmaStep& plan) {
  Grid grid;
  grid.address = places.address(task.source);
  grid.run_bytes = task.bytes_per_partition;
  plan.expansion = 1;
  if (task.stream.compressed()) {
    grid.run_bytes = task.stored_bytes();
    plan.extraction_cycles = kernel_extraction_cycles(
        chip.neural,
        std::int64_t{task.partitions} * task.stream.image_bytes / task.stream.element_bytes);
  } else if (task.dram_pitch == 0) {
    plan.expansion = task.partitions;
  } else {
    grid.add(task.partitions, static_cast<std::int64_t>(task.dram_pitch), 0);
  }
  sort_and_merge(grid);
  plan.reads = true;
  plan.writes = false;
  fill_runs(grid, false, plan.read);
}

}  // namespace

std::int64_t scatter_bytes(const TransferTask& task, const ChipConfig& chip) {
  const BufferSurface& buffer = task.buffer;
  const std::int64_t element = format_bytes(buffer.format);
  const auto& strides = task.dram.strides;
  struct Axis {
    std::int64_t extent = 1, stride = 0, width = 0;
  };
  const std::int64_t apart = chip.dma.scatter_elements * element;
  const Axis axes[] = {
      {buffer.columns, strides[3], buffer.column_pitch == element ? 0 : apart},
      {task.channel_count, strides[1],
       std::int64_t{chip.state_buffer.partitions} * chip.state_buffer.write_ports * element},
      {buffer.rows, strides[2], apart},
  };
  const Axis* innermost = nullptr;
  for (const Axis& axis : axes) {
    if (axis.extent == 1 || axis.stride == 0) continue;
    if (innermost == nullptr || std::abs(axis.stride) < std::abs(innermost->stride)) {
      innermost = &axis;
    }
  }
  return innermost == nullptr ? 0 : innermost->width;
}

void plan_dma_step(const TaskDescriptor& task, std::int64_t step, const DramPlaces& places,
                   const ChipConfig& chip, DmaStep& plan) {
  plan.extraction_cycles = plan.scatter_bytes = 0;
  plan.memories = task.header.memories;
  plan.share = task.header.share;
  if (const auto* transfer = std::get_if<TransferTask>(&task.config)) {
    plan_transfer(*transfer, task.engine == EngineKind::kLoad, task.bands.image(step),
                  task.bands.range(step), places, chip, plan);
  } else if (const auto* copy = std::get_if<CopyTask>(&task.config)) {
    plan_copy(*copy, task.bands.range(step), places, plan);
  } else {
    plan_kernel(std::get<KernelTask>(task.config), places, chip, plan);
  }
  cut_pieces(chip, dram_pieces(chip), plan);
}

DramRequest dma_request(const DmaStep& plan, std::int64_t piece, bool write) {
  DramRequest request;
  request.grid = write ? &plan.write : &plan.read;
  request.write = write;
  request.memory = write ? plan.memories.destination : plan.memories.source;
  if (!write) {
    request.share = plan.share.number;
    request.share_cores = plan.share.cores;
  }
  if (plan.pieces_per_run > 1) {
    request.first_run = piece / plan.pieces_per_run;
    const std::int64_t of_run = piece % plan.pieces_per_run;
    const std::int64_t end = plan.first_piece_bytes + of_run * plan.piece_bytes;
    request.skip = of_run == 0 ? 0 : end - plan.piece_bytes;
    request.bytes = std::min(end, plan.run_bytes) - request.skip;
  } else {
    request.first_run = piece * plan.runs_per_piece;
    request.runs = std::min(plan.runs_per_piece, plan.runs - request.first_run);
    request.bytes = plan.run_bytes;
  }
  return request;
}

std::int64_t dma_port_width(const DmaStep& plan, std::int64_t port_bytes) {
  return plan.scatter_bytes == 0 ? port_bytes : std::min(port_bytes, plan.scatter_bytes);
}

Cycles dma_port_free(const DmaStep& plan, std::int64_t bytes, std::int64_t port_bytes, Cycles now,
                     Cycles port_free) {
  // The bytes came in over the last cycles; with broadcast more go through the port, and what is
  // expanded goes at its own pace.
  const Cycles arrival = ceil_div(bytes, port_bytes);
  Cycles passage = ceil_div(bytes * plan.expansion, dma_port_width(plan, port_bytes));
  if (plan.extraction_cycles > 0) {
    passage = std::max(arrival, ceil_div(bytes * plan.extraction_cycles, plan.run_bytes));
  }
  return std::max(port_free, now - arrival) + passage;
}

}  // namespace tessera::isa
