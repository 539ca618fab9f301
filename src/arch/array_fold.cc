#include "arch/array_fold.h"

#include <algorithm>

#include "arch/cost.h"

namespace tessera {
namespace {

// The tiles of one sum: `runs` times (whole tiles of all rows, and a last one of `rest` rows).
struct Tiles {
  std::int64_t runs = 1, whole = 0, rest = 1;
};

Tiles tiles_of(const NeuralEngineConfig& config, const ProductWork& work) {
  const std::int64_t taps = work.kernel_h * work.kernel_w;
  const bool flat = work.cut == BlockCut::kIm2col;
  const std::int64_t run = flat ? taps * work.channels : work.channels;
  const std::int64_t whole = ceil_div(run, config.rows) - 1;
  return {flat ? 1 : taps, whole, run - whole * config.rows};
}

// Rows of the array with a part of the sum: elements [first, first + rows) of a run.
struct Tile {
  std::int64_t first = 0, rows = 1;
  std::int64_t pixels = 1;  // side by side
};

// Cycles a moving column takes to come through the port. A tile holds taps of each channel, in some
// of the kernel's rows; what the input buffer's shifter has from the moving column before, `pixels`
// pixels back, is not fresh.
std::int64_t pace_of(const ProductWork& work, std::int64_t pixels, const Tile& tile) {
  std::int64_t values = tile.pixels;
  if (work.cut == BlockCut::kIm2col) {
    // Channels of several blocks of partitions: a tile may end one tap and begin the next.
    const std::int64_t blocks = work.channels > work.partitions ? 1 : 0;
    const std::int64_t taps =
        std::min(work.kernel_h * work.kernel_w, ceil_div(tile.rows, work.channels) + blocks);
    const std::int64_t row_first = tile.first / work.channels / work.kernel_w;
    const std::int64_t row_last = (tile.first + tile.rows - 1) / work.channels / work.kernel_w;
    const std::int64_t window = work.kernel_w + (tile.pixels - 1) * work.stride_w;
    const std::int64_t fresh =
        (row_last - row_first + 1) * std::min(pixels * work.stride_w, window);
    values = std::min(tile.pixels * taps, fresh);
  }
  return std::max<std::int64_t>(1, ceil_div(values, work.port_elements));
}

ArrayFold fold_of(const NeuralEngineConfig& config, const ProductWork& work, const Tiles& tiles,
                  std::int64_t pixels) {
  ArrayFold fold;
  fold.pixels = pixels;
  for (std::int64_t i = 0; i < tiles.whole; ++i) {
    const Tile tile{i * config.rows, config.rows, 1};
    fold.pace = std::max(fold.pace, pace_of(work, pixels, tile));
  }
  fold.last_pace = pace_of(work, pixels, {tiles.whole * config.rows, tiles.rest, pixels});
  fold.passes = tiles.runs * (tiles.whole * pixels + 1);
  return fold;
}

// Of a chain, near enough to compare folds.
Cycles chain_cycles(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t rows,
                    const Tiles& tiles, const ArrayFold& fold) {
  const std::int64_t columns = rows * ceil_div(work.columns, fold.pixels);
  const auto pass = [&](std::int64_t pace) {
    return config.folds == Folds::kSerial ? columns * pace + 2 * config.rows + config.columns - 2
                                          : std::max<Cycles>(columns * pace, config.rows);
  };
  return (fold.passes - tiles.runs) * pass(fold.pace) + tiles.runs * pass(fold.last_pace);
}

}  // namespace

ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t rows) {
  const Tiles tiles = tiles_of(config, work);
  ArrayFold best = fold_of(config, work, tiles, 1);
  const bool dilated_input = work.input_dilation_h != 1 || work.input_dilation_w != 1;
  // Phases of a dilated input have tiles of their own.
  if (dilated_input) best.pace = best.last_pace = std::max(best.pace, best.last_pace);
  if (config.fold_pixels_max == 1 || dilated_input || config.command_columns != 0) return best;
  const std::int64_t copies =
      std::min(config.rows / tiles.rest, config.columns / work.output_channels);
  if (copies < 2 || (work.groups > 1 && tiles.whole > 0)) return best;
  best.groups = std::min(work.groups, copies);
  if (best.groups < work.groups) return best;
  const std::int64_t most =
      std::min<std::int64_t>({copies / best.groups, config.fold_pixels_max, work.columns});
  Cycles least = chain_cycles(config, work, rows, tiles, best);
  for (std::int64_t pixels = 2; pixels <= most; ++pixels) {
    ArrayFold fold = fold_of(config, work, tiles, pixels);
    fold.groups = best.groups;
    const Cycles cycles = chain_cycles(config, work, rows, tiles, fold);
    if (cycles >= least) continue;
    least = cycles;
    best = fold;
  }
  return best;
}

std::optional<PixelBand> pixel_band(const NeuralEngineConfig& config, const ProductWork& work) {
  if (work.kernel_w == 1 || work.input_dilation_h != 1 || work.input_dilation_w != 1) return {};
  if (config.folds == Folds::kSerial || config.command_columns != 0) return {};
  const std::int64_t width = std::min(config.rows, config.columns);
  const std::int64_t channels = work.groups * work.output_channels;
  const std::int64_t rest = channels % width;
  std::int64_t columns = channels / width * work.columns;
  if (rest != 0) columns += ceil_div(work.columns, std::min(work.port_elements, width / rest));
  Cycles best = work.kernel_w * columns;
  std::optional<PixelBand> chosen;
  const std::int64_t reach = work.dilation_w * (work.kernel_w - 1) + 1;
  for (std::int64_t slots = reach; slots <= std::min(work.port_elements, width); ++slots) {
    const PixelBand band{width / slots, slots, (slots - reach) / work.stride_w + 1};
    const Cycles cycles = ceil_div(channels, band.channels) * ceil_div(work.columns, band.outputs);
    if (cycles >= best) continue;
    best = cycles;
    chosen = band;
  }
  return chosen;
}

}  // namespace tessera
