// Turning tensors on the processor: how a tensor that lies in the state buffer in one layout comes
// to lie there in another, cut into exchanges of two axes, and what each way of doing it costs.
//
//   [channels m, rows, columns n]  ─►  [channels n, rows, columns m]     a part
//
//   array    identity product, DRAM is not touched       a pass a block, first load and skew once
//   planar   format converter through the line buffer    in by columns, out by rows
//   dma      stored to DRAM, loaded in the other layout  every byte twice, and the latencies
//
// Axes that are neither exchanged nor rows of a part become several parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/chip_config.h"
#include "compile/buffer_layout.h"
#include "compile/storage.h"
#include "compile/transposition_way.h"

namespace tessera::compile {

const char* transposition_way_name(TranspositionWay way);  // "array", "planar", "dma"

// Views [images, m, rows, n] of the source and [images, n, rows, m] of the target.
struct TransposePart {
  StorageView from, to;
};

// The dense storage view that holds what `view` reads: channels outermost, then the other axes in
// their order, so that what lies together along a partition lies together in the storage.
StorageView dense_view(const StorageView& view, StorageIndex storage);

// The parts that turn what `view` reads from a block laid out as `layout` into `target`, which is
// dense_view(view). None where both have their channels on the same axis, or more than `parts_max`
// would be needed.
inline constexpr std::size_t kTransposePartsMax = 64;
std::optional<std::vector<TransposePart>> cut_transposition(
    const BufferLayout& layout, const StorageView& view, const StorageView& target, Format format,
    std::size_t parts_max = kTransposePartsMax);

// Cycles of the parts in sequence on an idle engine.
Cycles array_transposition_cycles(const ChipConfig& chip, const std::vector<TransposePart>& parts);
Cycles planar_transposition_cycles(const ChipConfig& chip, const std::vector<TransposePart>& parts);
// A store of what the view reads, dense, and a load of it; the bytes of both.
struct DmaTransposition {
  Cycles cycles = 0;
  std::int64_t bytes = 0;
};
DmaTransposition dma_transposition(const ChipConfig& chip, const StorageView& view, Format format);
// DRAM bytes, in whole bursts, that a transfer of the view moves step by step.
std::int64_t transfer_bytes(const ChipConfig& chip, const StorageView& view, Format format);
// Cycles of the channel for them.
Cycles transfer_cycles(const ChipConfig& chip, const StorageView& view, Format format);
// The same with the start of the task and the latency of the memory.
Cycles transfer_task_cycles(const ChipConfig& chip, const StorageView& view, Format format);
// A copy from DRAM to DRAM, its addresses aside, in steps.
isa::TaskDescriptor copy_task(const PlannedCopy& copy, Format format);
// What it takes alone.
Cycles copy_task_cycles(const ChipConfig& chip, const PlannedCopy& copy, Format format);
// The planar engine takes surfaces from the first partition on.
bool planar_can_turn(const BufferLayout& layout, const BufferLayout& target,
                     const std::vector<TransposePart>& parts);

// The part cut until its operands take at most `room` bytes per partition: images, rows, then
// blocks of `partitions` columns and channels. Sides that are `resident` take nothing. False if
// that is impossible.
struct PartRoom {
  Format format = Format::kF16;
  std::int64_t partitions = 128;
  std::int64_t room = 0;
  bool from_resident = false, to_resident = false;
  bool exchanged = true;  // false: both sides are the same block (a copy through the buffer)
};
bool split_part(const TransposePart& part, const PartRoom& room, std::vector<TransposePart>& parts);
std::int64_t part_bytes(const TransposePart& part, const PartRoom& room);

}  // namespace tessera::compile
