#include "arith/kernels/block/row_layout.h"

#include <algorithm>

#include "arith/kernels/dot_panel.h"
#include "base/quantity.h"

namespace tessera::kernels {

RowLayout::RowLayout(const ProductConfig& config, std::int64_t output_columns,
                     std::int64_t output_rows)
    : stride(config.stride_w) {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::int64_t phase = 0; phase < config.input_dilation_w; ++phase) {
    column_taps.push_back(TapAxis::columns(config).taps(phase));
    for (const Tap& tap : column_taps.back()) {
      lowest = std::min(lowest, tap.offset);
      highest = std::max(highest, tap.offset);
    }
  }
  left = -lowest;
  const std::int64_t outputs = ceil_div(output_columns, config.input_dilation_w);
  positions =
      round_up((highest + left) / stride + round_up(outputs, kStripPixels) + 1, kStripPixels);
  std::int64_t first = INT64_MAX;
  std::int64_t last = INT64_MIN;
  for (std::int64_t phase = 0; phase < config.input_dilation_h; ++phase) {
    row_taps.push_back(TapAxis::rows(config).taps(phase));
    for (const Tap& tap : row_taps.back()) {
      first = std::min(first, tap.offset);
      last = std::max(last, tap.offset);
    }
  }
  slots = first > last ? 1 : last - first + 1 + (output_rows - 1) * config.stride_h;
}

void RowLayout::add_samples(const Surface& input, std::int64_t row, PixelRuns& runs) const {
  for (std::int64_t phase = 0; phase < stride; ++phase) {
    const std::int64_t first = phase >= left ? 0 : ceil_div(left - phase, stride);
    const std::int64_t room = input.columns + left - phase;
    const std::int64_t last = std::min(positions, room <= 0 ? 0 : ceil_div(room, stride));
    if (first >= last) continue;
    const std::int64_t sample = first * stride + phase - left;
    runs.add({.first = phase * positions + first,
              .count = last - first,
              .offset = row_offset(input, row) + sample * input.column_pitch,
              .step = stride * input.column_pitch});
  }
}

}  // namespace tessera::kernels
