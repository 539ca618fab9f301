// A copy from DRAM to DRAM that goes through the state buffer instead, because there it moves whole
// bursts on both sides:
//
//   as it lies   source ─load─► block ─store─► destination       one order of axes on both sides
//   exchanged    source ─load─► block ─turn─► block' ─store─► destination
//
// Exchanged, the axis that is innermost in the source is columns of the block, and the one that is
// innermost in the destination is its channels; the array or the planar engine exchanges them. Two
// more axes are images and rows, all others become several parts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/chip_config.h"
#include "compile/compile_options.h"
#include "compile/storage.h"
#include "compile/transposition.h"

namespace tessera::compile {

// An axis of a copy: extent, stride in the source, stride in the destination, in elements.
struct CopyAxis {
  std::int64_t extent = 1, from = 0, to = 0;
};
// Those of more than one element, neighbours that go on evenly on both sides joined. None where a
// stride is not positive.
std::optional<std::vector<CopyAxis>> copy_axes(const PlannedCopy& copy);

// The axes (at most 4) as views, axis `channel` of them as channels.
TransposePart passing_part(const PlannedCopy& copy, const std::vector<CopyAxis>& axes,
                           std::size_t channel);

struct CopyPassage {
  TranspositionWay way = TranspositionWay::kDma;  // kDma: as it lies
  std::vector<TransposePart> parts;
  Cycles cycles = 0;            // of all parts, alone
  std::int64_t dram_bytes = 0;  // whole bursts
};
// The cheapest way with the source in DRAM, or the one that is asked for if it is open; none where
// there is no more than one axis, or more parts than kPassagePartsMax are needed.
inline constexpr std::int64_t kPassagePartsMax = 256;
std::optional<CopyPassage> find_passage(const ChipConfig& chip, const PlannedCopy& copy,
                                        const std::vector<CopyAxis>& axes, Format format,
                                        std::optional<TranspositionWay> asked);

}  // namespace tessera::compile
