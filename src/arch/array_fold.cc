#include "arch/array_fold.h"

#include <algorithm>

#include "base/quantity.h"

namespace tessera {
namespace {

// Pixels of an output image below and beside each other.
struct Tile {
  std::int64_t h = 1, w = 1;
  std::int64_t pixels() const { return h * w; }
};

// A part of the sum that passes at once, and how often there is one.
struct Part {
  std::int64_t count = 0;
  std::int64_t rows = 0;  // of the array
  std::int64_t taps = 1;  // of a channel
};
struct Parts {
  Part full, rest;
};

Parts parts_of(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t taps) {
  const std::int64_t rows = config.rows;
  // Channels of several blocks of partitions: a pass may end one tap and begin the next.
  const std::int64_t more = work.channels > work.partitions ? 1 : 0;
  const auto taps_of = [&](std::int64_t used) {
    return work.cut == BlockCut::kIm2col ? std::min(taps, ceil_div(used, work.channels) + more) : 1;
  };
  const std::int64_t times = work.cut == BlockCut::kIm2col ? 1 : taps;
  const std::int64_t sum = work.cut == BlockCut::kIm2col ? taps * work.channels : work.channels;
  return {.full = {times * (sum / rows), rows, taps_of(rows)},
          .rest = {sum % rows != 0 ? times : 0, sum % rows, taps_of(sum % rows)}};
}

// Cycles that a moving column needs for the pixels of `at_once` to come through the port, where the
// next column is `tile` further.
std::int64_t column_pace(const ProductWork& work, const Part& part, const Tile& at_once,
                         const Tile& tile) {
  std::int64_t values = at_once.pixels();
  if (work.cut == BlockCut::kIm2col) {
    const std::int64_t kernel_rows =
        std::min(work.kernel_h, ceil_div(part.taps - 1, work.kernel_w) + 1);
    const std::int64_t rows =
        std::min(at_once.h * kernel_rows,
                 work.dilation_h == 1 ? kernel_rows + (at_once.h - 1) * work.stride_h : INT64_MAX);
    const std::int64_t window = work.kernel_w + (at_once.w - 1) * work.stride_w;
    const std::int64_t fresh = rows * std::min(tile.w * work.stride_w, window);
    values = std::min(at_once.pixels() * part.taps, fresh);
  }
  return std::max<std::int64_t>(1, ceil_div(values, work.port_elements));
}

// The passes of a part whose weights fit the array `copies` times.
ChainPasses passes_of(const NeuralEngineConfig& config, const ProductWork& work, const Part& part,
                      std::int64_t copies, const Tile& tile, std::int64_t columns) {
  ChainPasses best;
  if (part.count == 0) return best;
  const auto cycles = [&](const ChainPasses& passes) {
    return passes.count * std::max<Cycles>(columns * passes.pace, config.rows);
  };
  for (std::int64_t h = 1; h <= std::min(tile.h, copies); ++h) {
    const Tile at_once{h, std::min(tile.w, copies / h)};
    const ChainPasses passes{part.count * ceil_div(tile.h, at_once.h) * ceil_div(tile.w, at_once.w),
                             column_pace(work, part, at_once, tile)};
    if (best.count == 0 || cycles(passes) < cycles(best)) best = passes;
  }
  return best;
}

// Of a chain whose neighbours are like it: its passes, or the post-processor, where that takes longer
// for what they leave. With a single bank it works behind the passes.
Cycles fold_cycles(const NeuralEngineConfig& config, const ProductWork& work, const ArrayFold& fold,
                   std::int64_t columns) {
  const Cycles passes = fold.full.count * std::max<Cycles>(columns * fold.full.pace, config.rows) +
                        fold.rest.count * std::max<Cycles>(columns * fold.rest.pace, config.rows);
  if (work.keeps_sums) return passes;
  const Cycles post = work.post_cycles * columns;
  return config.psum_banks > 1 ? std::max(passes, post) : passes + post - columns;
}

}  // namespace

ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work,
                     const FoldShape& shape, std::int64_t taps) {
  const Parts parts = parts_of(config, work, taps);
  std::int64_t groups = 1;
  std::int64_t places = 1;
  const bool folds = work.input_dilation_h == 1 && work.input_dilation_w == 1 &&
                     config.command_columns == 0 && config.folds == Folds::kOverlapped;
  if (folds && config.fold_pixels_max > 1) {
    places = config.columns / shape.output_channels;
    if (work.groups > 1) {
      if (parts.full.count != 0) places = 1;
      places = std::min(places, config.rows / std::max<std::int64_t>(1, parts.rest.rows));
      groups = std::clamp<std::int64_t>(places, 1, work.groups);
      places = groups == work.groups ? places / groups : 1;
    }
  }
  const auto columns_of = [&](const Tile& tile) {
    return ceil_div(shape.rows, tile.h) * ceil_div(work.columns, tile.w);
  };
  const auto fold_of = [&](const Tile& tile) {
    const auto passes = [&](const Part& part) {
      const std::int64_t copies = part.count == 0 ? 1 : config.rows / (part.rows * groups);
      return passes_of(config, work, part, copies, tile, columns_of(tile));
    };
    return ArrayFold{groups, tile.h, tile.w, passes(parts.full), passes(parts.rest)};
  };
  ArrayFold best = fold_of({});
  Cycles least = fold_cycles(config, work, best, columns_of({}));
  const std::int64_t most = std::min<std::int64_t>(places, config.fold_pixels_max);
  for (std::int64_t h = 1; h <= std::min(most, shape.rows); ++h) {
    for (std::int64_t w = h == 1 ? 2 : 1; w <= std::min(most / h, work.columns); ++w) {
      const ArrayFold fold = fold_of({h, w});
      const Cycles cycles = fold_cycles(config, work, fold, columns_of({h, w}));
      if (cycles >= least) continue;
      least = cycles;
      best = fold;
    }
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
