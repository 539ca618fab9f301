// What a DMA step asks of the DRAM channel: grids of contiguous runs, walked in address order.
//
//   step (image, rows) ─► axes by falling stride, broadcast axes dropped, touching axes merged
//                     ─► runs ─► pieces (DramPieces), each one request
//
// Copies walk source and destination alike, in the order of the destination.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "engines/memory/dram_channel.h"
#include "engines/memory/dram_memory.h"
#include "isa/descriptor.h"

namespace tessera::engines {

struct DmaStep {
  bool reads = false, writes = false;  // DRAM; both for a copy
  StridedRuns read, write;             // equal runs and pieces if both
  std::int64_t run_bytes = 0;
  std::int64_t runs = 0;
  std::int64_t pieces = 0;
  std::int64_t pieces_per_run = 1;  // > 1: runs longer than a piece
  std::int64_t runs_per_piece = 1;
  std::int64_t piece_bytes = 1;        // of a run in several pieces
  std::int64_t first_piece_bytes = 1;  // of its first piece
  // Bytes that cross the state buffer's or kernel memory's port, for each byte of DRAM.
  std::int64_t expansion = 1;
  // Of a compressed kernel: cycles that its expansion takes in all, spread over its bytes.
  Cycles extraction_cycles = 0;
};

struct DmaPlace {
  const DramMemory* memory = nullptr;
  std::uint32_t network = 0;
};

// Fills `plan` for step `step` (0-based) of a transfer, copy or kernel task.
void plan_dma_step(const isa::TaskDescriptor& task, std::int64_t step, const DmaPlace& place,
                   const ChipConfig& chip, DmaStep& plan);
// The request of piece `piece`, on grid `grid` (plan.read or plan.write).
DramRequest dma_request(const DmaStep& plan, std::int64_t piece, bool write);

}  // namespace tessera::engines
