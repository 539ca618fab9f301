// Layers against the RTL of an 8 x 8 weight-stationary int8 array, tile by tile
// (repro/tile_pipeline.h), on the profile `gemmini8`.
//
//   "[T] N1 C64 M128 P28 Q28 S3 R3 - [O] ... - [I] N1 C24 M8 P15 Q17 S3 R3"
//      the whole layer                         one tile
//
//   conv  P x Q output pixels, C input and M output channels, S x R taps: tiles run over pixels,
//         then M, then C; the longer side of a tile's pixels lies along the rows of the image
//   gemm  [N, C] x [C, M]: tiles run over N, then M, then C, in whole blocks of the array's side
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "repro/csv.h"
#include "repro/tile_pipeline.h"
#include "repro/timing_table.h"

namespace tessera::repro {

struct LoopExtents {
  std::int64_t n = 1, c = 1, m = 1, p = 1, q = 1, s = 1, r = 1;
};
struct TiledLayer {
  bool convolution = false;
  LoopExtents total, tile;
  std::int64_t stride = 1;
};

// `kind` is "conv" or "gemm". The notation has no stride: it is 2 where a tile of stride 2 still
// fits half of the scratchpad, as tiles are as large as they can be.
Result<TiledLayer> parse_tiled_layer(const ChipConfig& chip, std::string_view kind,
                                     std::string_view mapping);

std::vector<PipelineTile> tiles_of(const ChipConfig& chip, const TiledLayer& layer);

// Columns kind, test, mapping, gemmini_rtl_cycles. Beside each error stands the one with constants
// that were fitted without this row.
Result<TimingTable> gemmini_timing(const CsvTable& measured);

}  // namespace tessera::repro
