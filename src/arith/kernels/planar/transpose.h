// Exchanges channels and columns of a surface, row by row, element by element as they are:
//
//   [channels m, rows, columns n]  ─►  [channels n, rows, columns m]
//
// No bit changes, whatever the format: NaN payloads, infinities and -0 included.
#pragma once

#include "arith/kernels/surface.h"

namespace tessera {

// The output's channel of the input's first column, and so on.
struct TransposeRange {
  ChannelRange channels;          // of the input; the first becomes the output's first column
  std::int64_t output_first = 0;  // the output channel of the input's first column
  std::int64_t output_count = 1;  // columns of the input that are taken
  RowRange rows;
};

void transpose(const Surface& from, const Surface& to, const TransposeRange& range);

}  // namespace tessera
