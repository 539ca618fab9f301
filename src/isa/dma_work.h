// What a DMA step asks of the DRAM: grids of contiguous runs, walked in address order.
//
//   step (image, rows) ─► axes by falling stride, broadcast axes dropped, touching axes merged
//                     ─► runs ─► pieces (DramPieces), each one request
//
// Copies walk source and destination alike, in the order of the destination. The DMA engines make
// these requests, and dma_time.h what they take alone.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "arch/dram_request.h"
#include "isa/descriptor.h"

namespace tessera::isa {

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
  // How many of them in a cycle at most; 0: as many as the port is wide. See scatter_bytes().
  std::int64_t scatter_bytes = 0;
  // Of a compressed kernel: cycles that its expansion takes in all, spread over its bytes.
  Cycles extraction_cycles = 0;
  TaskMemories memories;
  LoadShare share;
};

// Where a network's regions lie: modelled addresses, bytes.
struct DramPlaces {
  ByBase<std::int64_t> regions{};
  std::int64_t address(DramAddress at) const {
    return regions[at.base] + static_cast<std::int64_t>(at.offset);
  }
};

// What crosses the buffer's port in a cycle, in bytes, by where neighbours in DRAM lie in the buffer:
//   columns side by side   whole words, as wide as the port (0)
//   channels               one element for each write port of a partition
//   rows, or columns that lie apart   elements one by one, of which the DMA steers
//                          dma.scatter_elements at once
std::int64_t scatter_bytes(const TransferTask& task, const ChipConfig& chip);

// Fills `plan` for step `step` (0-based) of a transfer, copy or kernel task.
void plan_dma_step(const TaskDescriptor& task, std::int64_t step, const DramPlaces& places,
                   const ChipConfig& chip, DmaStep& plan);
// The request of piece `piece`, on grid `grid` (plan.read or plan.write).
DramRequest dma_request(const DmaStep& plan, std::int64_t piece, bool write);

// Bytes that cross the buffer's port of `port_bytes` in a cycle.
std::int64_t dma_port_width(const DmaStep& plan, std::int64_t port_bytes);
// From when on the buffer's port, or the extraction behind it, has taken the bytes of a piece that
// has come out of DRAM at `now`; it was free from `port_free` on.
Cycles dma_port_free(const DmaStep& plan, std::int64_t bytes, std::int64_t port_bytes, Cycles now,
                     Cycles port_free);

}  // namespace tessera::isa
