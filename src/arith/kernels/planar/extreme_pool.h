// Maximum and minimum of windows: elements become integers of the same order ("keys"), a window is
// the largest key along its rows, then of its rows.
//
//   rows of a channel ──► keys, padded ──► largest of each window's columns ──► of its rows
//     ──► rows
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arith/format.h"
#include "arith/kernels/aligned_buffer.h"

namespace tessera::kernels {

struct ExtremeWindow {
  Format format = Format::kF16;  // f16, bf16, f32, i8, u8; of the input and the output
  bool minimum = false;
  std::int64_t columns = 0;  // of the input
  std::int64_t output_columns = 0;
  std::int64_t window_w = 1, stride_w = 1, dilation_w = 1;
  std::int64_t pad_left = 0;  // at least 0
};
// Rows of the input under the window of an output row: first, first + dilation, ...
struct ExtremeRows {
  std::int64_t first = 0, count = 0;
};
// One channel. `inputs` and `outputs` have their elements behind each other.
struct ExtremeChannel {
  std::span<const std::byte* const> inputs;
  std::span<const ExtremeRows> rows;  // in `inputs`, one per output row
  std::int64_t dilation_h = 1;
  std::span<std::byte* const> outputs;
};
void extreme_channel(const ExtremeWindow& window, const ExtremeChannel& channel,
                     AlignedBuffer<std::byte>& scratch);

}  // namespace tessera::kernels
