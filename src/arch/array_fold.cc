#include "arch/array_fold.h"

#include <algorithm>

#include "arch/cost.h"

namespace tessera {
namespace {

// Cycles a moving column of `pixels` pixels of a row takes to come through the port.
std::int64_t column_pace(const NeuralEngineConfig& config, const ProductWork& work,
                         std::int64_t pixels) {
  std::int64_t values = pixels;
  if (work.cut == BlockCut::kIm2col) {
    const std::int64_t taps = work.kernel_h * work.kernel_w;
    const std::int64_t taps_of_pass = std::min(taps, ceil_div(config.rows, work.channels));
    const std::int64_t window = work.kernel_w + (pixels - 1) * work.stride_w;
    const std::int64_t fresh = work.kernel_h * std::min(pixels * work.stride_w, window);
    values = std::min(pixels * taps_of_pass, fresh);
  }
  return std::max<std::int64_t>(1, ceil_div(values, work.port_elements));
}

}  // namespace

ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work) {
  ArrayFold fold;
  fold.pace = column_pace(config, work, 1);
  const bool dilated_input = work.input_dilation_h != 1 || work.input_dilation_w != 1;
  if (config.fold_pixels_max == 1 || dilated_input || config.command_columns != 0) return fold;
  const std::int64_t taps =
      work.cut == BlockCut::kIm2col ? work.kernel_h * work.kernel_w : std::int64_t{1};
  const std::int64_t copies =
      std::min(config.rows / (taps * work.channels), config.columns / work.output_channels);
  if (copies < 2) return fold;
  fold.groups = std::min(work.groups, copies);
  if (fold.groups < work.groups) return fold;
  const std::int64_t most =
      std::min<std::int64_t>({copies / fold.groups, config.fold_pixels_max, work.columns});
  Cycles best = work.columns * fold.pace;
  for (std::int64_t pixels = 2; pixels <= most; ++pixels) {
    const std::int64_t pace = column_pace(config, work, pixels);
    const Cycles row = ceil_div(work.columns, pixels) * pace;
    if (row >= best) continue;
    best = row;
    fold.pixels = pixels;
    fold.pace = pace;
  }
  return fold;
}

}  // namespace tessera
