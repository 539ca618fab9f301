// Even shares of an extent.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "arith/kernels/surface.h"

namespace tessera::compile {

// [0, extent) in `shares` ranges whose sizes differ by one at most; in `extent` of one each where
// there are more shares. For extent and shares >= 1.
inline std::vector<RowRange> even_ranges(std::int64_t extent, std::int64_t shares) {
  const std::int64_t count = std::min(extent, shares);
  std::vector<RowRange> ranges;
  for (std::int64_t i = 0; i < count; ++i) {
    ranges.push_back({extent * i / count, extent * (i + 1) / count});
  }
  return ranges;
}

// The same in whole blocks of `block`, the last of which may be smaller.
inline std::vector<RowRange> block_ranges(std::int64_t extent, std::int64_t block,
                                          std::int64_t shares) {
  std::vector<RowRange> ranges = even_ranges((extent + block - 1) / block, shares);
  for (RowRange& range : ranges) {
    range = {range.first * block, std::min(range.last * block, extent)};
  }
  return ranges;
}

}  // namespace tessera::compile
