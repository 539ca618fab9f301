// Layers against the RTL of an 8 x 8 weight-stationary int8 array: each is a program of tiles
// (repro/tiled_program.h) that the virtual core runs, on the profile `gemmini8`.
//
//   "[T] N1 C64 M128 P28 Q28 S3 R3 - [O] ... - [I] N1 C24 M8 P15 Q17 S3 R3"
//      the whole layer                         one tile
//
// Tiles of a gemm are whole blocks of the array's side.
#pragma once

#include <cstdint>
#include <string_view>

#include "arch/chip_config.h"
#include "base/result.h"
#include "repro/csv.h"
#include "repro/tiled_program.h"
#include "repro/timing_table.h"

namespace tessera::repro {

// `kind` is "conv" or "gemm". The notation has no stride: it is 2 where a tile of stride 2 still
// fits half of the scratchpad, as tiles are as large as they can be.
Result<TiledLayer> parse_tiled_layer(const ChipConfig& chip, std::string_view kind,
                                     std::string_view mapping);

// From the first request to the end of the last store.
Result<Cycles> tiled_layer_cycles(const ChipConfig& chip, const TiledLayer& layer);

// Columns kind, test, mapping, gemmini_rtl_cycles. Beside each error stands the one with constants
// that were fitted without this row.
Result<TimingTable> gemmini_timing(const CsvTable& measured);

}  // namespace tessera::repro
