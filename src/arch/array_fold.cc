#include "arch/array_fold.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tessera {
namespace {

// Columns below each other that take turns, at most, and the input buffer's registers for a row of the
// array.
constexpr std::int64_t kTurnsMax = 8, kBufferRegisters = 2;

// Pixels of an output image below and beside each other.
struct Tile {
  std::int64_t h = 1, w = 1;
  std::int64_t pixels() const { return h * w; }
};

// A part of the sum that passes at once, and how often there is one: for each tap, where blocks run
// along the channels.
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
  const std::int64_t sum = work.cut == BlockCut::kIm2col ? taps * work.channels : work.channels;
  return {.full = {sum / rows, rows, taps_of(rows)},
          .rest = {sum % rows != 0 ? 1 : 0, sum % rows, taps_of(sum % rows)}};
}

// Rows that a pixel takes where others lie below it: a shared exponent belongs to whole blocks of the
// tree under the columns.
std::int64_t block_rows(const ProductWork& work) {
  return work.native_dimension != 0 || work.micro_blocks ? kTreeRows : 1;
}
std::int64_t stacked_rows(const ProductWork& work, std::int64_t rows) {
  return ceil_div(rows, block_rows(work)) * block_rows(work);
}

// Input rows (columns) that `outputs` neighbouring output rows (columns) read.
std::int64_t places_read(std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                         std::int64_t dilation) {
  if (dilation == 1) return kernel + (outputs - 1) * std::min(stride, kernel);
  std::vector<std::int64_t> read;
  for (std::int64_t output = 0; output < outputs; ++output) {
    for (std::int64_t k = 0; k < kernel; ++k) read.push_back(output * stride + k * dilation);
  }
  std::sort(read.begin(), read.end());
  return std::unique(read.begin(), read.end()) - read.begin();
}

// Input rows that pixels below each other read of `kernel_rows` rows of the kernel.
std::int64_t rows_read(const ProductWork& work, std::int64_t pixels, std::int64_t kernel_rows) {
  const std::int64_t apart = pixels * kernel_rows;
  if (work.dilation_h != 1) return apart;
  return std::min(apart, kernel_rows + (pixels - 1) * work.stride_h);
}

// Of an im2col part: values that come through the port for `turns` moving columns below each other, where
// the next ones are `tile` further, and the values in their window.
struct PortValues {
  std::int64_t fresh = 0, window = 0;
};
PortValues port_values(const ProductWork& work, const Part& part, const Tile& at_once,
                       const Tile& tile, std::int64_t turns) {
  const std::int64_t kernel_rows =
      std::min(work.kernel_h, ceil_div(part.taps - 1, work.kernel_w) + 1);
  const std::int64_t rows = rows_read(work, turns * at_once.h, kernel_rows);
  const std::int64_t window = work.kernel_w + (at_once.w - 1) * work.stride_w;
  const std::int64_t fresh = rows * std::min(tile.w * work.stride_w, window);
  return {std::min(turns * at_once.pixels() * part.taps, fresh), rows * window};
}

// Elements of a partition that a moving column takes through the port for the pixels of `at_once`, where
// the next column is `tile` further.
std::int64_t column_elements(const ProductWork& work, const Part& part, const Tile& at_once,
                             const Tile& tile) {
  return work.cut == BlockCut::kIm2col ? port_values(work, part, at_once, tile, 1).fresh
                                       : at_once.pixels();
}

// Cycles that a moving column needs for that.
std::int64_t column_pace(const ProductWork& work, std::int64_t elements) {
  return std::max<std::int64_t>(1, ceil_div(elements, work.port_elements));
}

// Moving columns of `tiles` tiles below each other take turns where that is faster; a group at the end
// that has fewer takes as long as the others.
void take_turns(const NeuralEngineConfig& config, const ProductWork& work, const Part& part,
                const Tile& at_once, const Tile& tile, std::int64_t tiles, ChainPasses& passes) {
  if (work.cut != BlockCut::kIm2col || passes.pace == 1 || at_once.h != tile.h) return;
  const std::int64_t channels = ceil_div(part.rows, part.taps);
  for (std::int64_t turns = 2; turns <= std::min(kTurnsMax, tiles); ++turns) {
    const PortValues values = port_values(work, part, at_once, tile, turns);
    if (values.window * channels > kBufferRegisters * config.rows) return;
    const std::int64_t of_group = std::max(turns, ceil_div(values.fresh, work.port_elements));
    const std::int64_t pace = ceil_div(tiles, turns) * of_group;
    if (pace * passes.turns >= passes.pace * tiles) continue;
    passes.pace = pace;
    passes.turns = tiles;
    passes.elements = ceil_div(tiles, turns) * values.fresh;
  }
}

// Outputs along an axis of a product with gaps in its input: which input positions they read depends on
// where they begin, `shift` behind the first that reads position 0 with tap 0.
std::int64_t places_between_gaps(std::int64_t outputs, std::int64_t kernel, std::int64_t gap,
                                 std::int64_t shift) {
  return (shift + outputs + kernel - 2) / gap - ceil_div(shift, gap) + 1;
}

// The shift of tiles of `outputs` for which they read the fewest positions.
std::int64_t best_shift(std::int64_t outputs, std::int64_t kernel, std::int64_t gap) {
  std::int64_t best = 0;
  for (std::int64_t shift = 1; shift < gap; ++shift) {
    if (places_between_gaps(outputs, kernel, gap, shift) <
        places_between_gaps(outputs, kernel, gap, best)) {
      best = shift;
    }
  }
  return best;
}

// Input rows and columns that neighbouring outputs read.
std::int64_t pixels_read(const ProductWork& work, const Tile& outputs) {
  const auto along = [](std::int64_t count, std::int64_t kernel, std::int64_t stride,
                        std::int64_t dilation, std::int64_t gap) {
    if (gap == 1) return places_read(count, kernel, stride, dilation);
    // Outputs that are no whole phases begin anywhere.
    const std::int64_t shift = count % gap == 0 ? best_shift(count, kernel, gap) : 0;
    return std::max<std::int64_t>(1, places_between_gaps(count, kernel, gap, shift));
  };
  return along(outputs.h, work.kernel_h, work.stride_h, work.dilation_h, work.input_dilation_h) *
         along(outputs.w, work.kernel_w, work.stride_w, work.dilation_w, work.input_dilation_w);
}

Cycles passes_cycles(const NeuralEngineConfig& config, const ChainPasses& passes,
                     std::int64_t columns) {
  return passes.count *
         std::max<Cycles>(stream_cycles(passes, columns), passes.loads * config.rows);
}

// Input pixels in the rows of a column, each with its own exponent, at most.
std::int64_t stacked_max(const NeuralEngineConfig& config, const ProductWork& work,
                         std::int64_t rows) {
  if (work.cut != BlockCut::kChannel || work.groups != 1 || rows == 0) return 1;
  return std::clamp<std::int64_t>(config.rows / stacked_rows(work, rows), 1,
                                  config.fold_pixels_max);
}

// Rows that each pass fills where pixels are cut between passes; 0 where whole pixels fill as many.
std::int64_t filled_rows(const NeuralEngineConfig& config, const ProductWork& work,
                         std::int64_t rows) {
  if (work.cut != BlockCut::kChannel || work.groups != 1 || rows == 0 || rows == config.rows ||
      work.kernel_h * work.kernel_w == 1) {
    return 0;
  }
  const std::int64_t of_pixel = stacked_rows(work, rows);
  const std::int64_t filled = config.rows / block_rows(work) * block_rows(work);
  const std::int64_t pixels = ceil_div(filled, of_pixel) + 1;  // two of them in part
  return filled % of_pixel != 0 && pixels <= config.fold_pixels_max ? filled : 0;
}

// Reads of kernel memory for a row of a tile that has `kernel_rows` rows of the kernel. The taps of an
// input channel lie one behind the other, `columns` elements are read at once.
std::int64_t reads_of_row(const NeuralEngineConfig& config, const ProductWork& work,
                          std::int64_t kernel_rows) {
  const std::int64_t of_tap = std::min<std::int64_t>(work.output_channels, config.columns) *
                              ceil_div(work.channels, config.rows);
  const std::int64_t reads = ceil_div(kernel_rows * work.kernel_w * of_tap, config.columns);
  return std::min(kernel_rows, reads);
}

// How a part of the sum lies in the array: beside each other in rows and columns of their own, and
// below each other in the same columns.
struct PartPlaces {
  std::int64_t side_by_side = 1, stacked = 1;
};

ChainPasses passes_in(const NeuralEngineConfig& config, const ProductWork& work, const Part& part,
                      const PartPlaces& places, const Tile& tile, const Tile& columns) {
  ChainPasses best;
  for (std::int64_t h = 1; h <= std::min(tile.h, places.side_by_side); ++h) {
    const Tile at_once{h, std::min(tile.w, places.side_by_side / h)};
    const Tile sharing{ceil_div(tile.h, at_once.h), ceil_div(tile.w, at_once.w)};
    const std::int64_t elements = column_elements(work, part, at_once, tile);
    ChainPasses passes{.count = part.count * sharing.pixels(),
                       .pace = column_pace(work, elements),
                       .elements = elements,
                       .side_by_side = at_once.pixels(),
                       .stacked = places.stacked};
    if (work.cut == BlockCut::kChannel) {
      passes.count = part.count * ceil_div(pixels_read(work, sharing), places.stacked);
      passes.elements = at_once.pixels() * places.stacked;
      passes.pace = column_pace(work, passes.elements);
      passes.loads = reads_of_row(config, work, std::min(sharing.h, work.kernel_h));
    }
    take_turns(config, work, part, at_once, tile, columns.h, passes);
    if (best.count == 0 || passes_cycles(config, passes, columns.pixels()) <
                               passes_cycles(config, best, columns.pixels())) {
      best = passes;
    }
  }
  return best;
}

// All rows of the array filled with pixels of a tile, one behind the other.
ChainPasses filled_passes(const NeuralEngineConfig& config, const ProductWork& work,
                          const Part& part, const Tile& tile, std::int64_t filled) {
  const std::int64_t of_pixel = stacked_rows(work, part.rows);
  const std::int64_t pixels = ceil_div(filled, of_pixel) + 1;
  return {.count = part.count * ceil_div(pixels_read(work, tile) * of_pixel, filled),
          .pace = ceil_div(pixels, work.port_elements),
          .elements = pixels,
          .loads = reads_of_row(config, work, std::min(tile.h, work.kernel_h)),
          .stacked = pixels,
          .filled_rows = filled};
}

// The passes of a part, beside `groups - 1` others.
ChainPasses passes_of(const NeuralEngineConfig& config, const ProductWork& work, const Part& part,
                      std::int64_t groups, const Tile& tile, const Tile& columns) {
  ChainPasses best;
  if (part.count == 0) return best;
  const std::int64_t most = stacked_max(config, work, part.rows);
  for (std::int64_t stacked = 1; stacked <= most; ++stacked) {
    const std::int64_t rows = stacked == 1 ? part.rows : stacked_rows(work, part.rows) * stacked;
    const std::int64_t copies =
        std::min<std::int64_t>(config.rows / (rows * groups), config.fold_pixels_max / stacked);
    const ChainPasses passes = passes_in(config, work, part, {copies, stacked}, tile, columns);
    if (best.count == 0 || passes_cycles(config, passes, columns.pixels()) <
                               passes_cycles(config, best, columns.pixels())) {
      best = passes;
    }
  }
  const std::int64_t filled = filled_rows(config, work, part.rows);
  if (filled == 0) return best;
  const ChainPasses passes = filled_passes(config, work, part, tile, filled);
  const bool fewer = passes_cycles(config, passes, columns.pixels()) <
                     passes_cycles(config, best, columns.pixels());
  return fewer ? passes : best;
}

// Of a chain whose neighbours are like it: its passes, or the post-processor, where that takes longer
// for what they leave. With a single bank it works behind the passes.
Cycles fold_cycles(const NeuralEngineConfig& config, const ProductWork& work, const ArrayFold& fold,
                   std::int64_t columns) {
  const Cycles passes =
      passes_cycles(config, fold.full, columns) + passes_cycles(config, fold.rest, columns);
  if (work.keeps_sums) return passes;
  const Cycles post = fold.result_cycles * columns;
  return config.psum_banks > 1 ? std::max(passes, post) : passes + post - columns;
}

// Until the results of `pixels` pixels, in `columns` columns of the array, have left.
Cycles result_cycles(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t pixels,
                     std::int64_t columns) {
  const bool own_table = work.pairs_share_table && 2 * columns <= config.columns;
  return std::max(own_table ? 1 : work.post_cycles, ceil_div(pixels, work.port_elements));
}

// A product whose input is dilated, by its taps; or on an array that takes a pixel at a time.
ArrayFold unfolded(const NeuralEngineConfig& config, const ProductWork& work, std::int64_t taps) {
  const Parts parts = parts_of(config, work, taps);
  const std::int64_t times = work.cut == BlockCut::kIm2col ? 1 : taps;
  const auto passes = [&](const Part& part) {
    const std::int64_t elements = column_elements(work, part, {}, {});
    return ChainPasses{
        .count = part.count * times, .pace = column_pace(work, elements), .elements = elements};
  };
  return {
      .full = passes(parts.full), .rest = passes(parts.rest), .result_cycles = work.post_cycles};
}

// How many groups, then pixels, have columns of their own.
struct Places {
  std::int64_t groups = 1, pixels = 1;
};

Places places_of(const NeuralEngineConfig& config, const ProductWork& work, const Parts& parts,
                 std::int64_t output_channels) {
  std::int64_t places = config.columns / output_channels;
  if (work.groups == 1) return {.pixels = places};
  if (parts.full.count != 0) places = 1;
  places = std::min(places, config.rows / std::max<std::int64_t>(1, parts.rest.rows));
  const std::int64_t groups = std::clamp<std::int64_t>(places, 1, work.groups);
  return {groups, groups == work.groups ? places / groups : 1};
}

bool has_gaps(const ProductWork& work) {
  return work.input_dilation_h != 1 || work.input_dilation_w != 1;
}

bool folds(const NeuralEngineConfig& config) {
  return config.command_columns == 0 && config.folds == Folds::kOverlapped &&
         config.fold_pixels_max > 1;
}

// Of a tile's heights and widths, beyond 8 every other one, beyond 16 every fourth.
std::int64_t next_extent(std::int64_t extent) {
  return extent + (extent < 8 ? 1 : extent < 16 ? 2 : 4);
}

// The output of a step in tiles. With gaps in the input tiles begin where they read the fewest pixels.
struct TileGrid {
  std::int64_t rows = 1, columns = 1;
  std::int64_t row_first = 0, column_first = 0;  // less the padding
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t gap_h = 1, gap_w = 1;

  bool takes(const Tile& tile) const { return tile.h % gap_h == 0 && tile.w % gap_w == 0; }
  // Below and beside each other, those at the edges included.
  Tile columns_of(const Tile& tile) const {
    return {tiles(rows, row_first, tile.h, kernel_h, gap_h),
            tiles(columns, column_first, tile.w, kernel_w, gap_w)};
  }

 private:
  static std::int64_t tiles(std::int64_t extent, std::int64_t first, std::int64_t tile,
                            std::int64_t kernel, std::int64_t gap) {
    if (gap == 1) return ceil_div(extent, tile);
    const std::int64_t before = first - best_shift(tile, kernel, gap);
    return ceil_div(extent + (before % gap + gap) % gap, tile);
  }
};

struct FoldSearch {
  const NeuralEngineConfig& config;
  const ProductWork& work;
  const FoldShape& shape;
  const TileGrid& grid;
  Parts parts;
};

// Of tiles that the grid takes; no passes where it takes none.
ArrayFold best_fold(const FoldSearch& search) {
  const auto& [config, work, shape, grid, parts] = search;
  const Places places = places_of(config, work, parts, shape.output_channels);
  ArrayFold best;
  Cycles least = 0;
  const std::int64_t most = places.pixels;
  for (std::int64_t h = 1; h <= std::max<std::int64_t>(1, std::min(most, shape.rows));
       h = next_extent(h)) {
    for (std::int64_t w = 1; w <= std::max<std::int64_t>(1, std::min(most / h, work.columns));
         w = next_extent(w)) {
      const Tile tile{h, w};
      if (!grid.takes(tile)) continue;
      const Tile columns = grid.columns_of(tile);
      const auto passes = [&](const Part& part) {
        return passes_of(config, work, part, places.groups, tile, columns);
      };
      const ArrayFold fold{
          .groups = places.groups,
          .tile_h = h,
          .tile_w = w,
          .full = passes(parts.full),
          .rest = passes(parts.rest),
          .result_cycles = result_cycles(config, work, tile.pixels(),
                                         places.groups * tile.pixels() * shape.output_channels)};
      const Cycles cycles = fold_cycles(config, work, fold, columns.pixels());
      if (least != 0 && cycles >= least) continue;
      least = cycles;
      best = fold;
    }
  }
  return best;
}

// Outputs along an axis that `inputs` neighbouring input pixels reach, whole strides, where they begin best.
std::int64_t outputs_reached(std::int64_t inputs, std::int64_t kernel, std::int64_t stride) {
  // Output o reads inputs o * stride ... o * stride + kernel - 1.
  std::int64_t best = inputs + kernel - 1;
  for (std::int64_t shift = 0; shift < stride; ++shift) {
    const std::int64_t before = kernel > shift ? (kernel - 1 - shift) / stride : -1;
    best = std::min(best, (inputs - 1 + shift) / stride + before + 1);
  }
  return best;
}

// Moving columns along an axis, of `inputs` pixels each, that the first `outputs` outputs read.
std::int64_t moving_along(std::int64_t outputs, std::int64_t kernel, std::int64_t stride,
                          std::int64_t inputs) {
  return ceil_div(outputs * stride - 1 + kernel, inputs);
}

// Products whose columns may hold what this file's head shows beyond tiles of outputs.
bool places_freely(const NeuralEngineConfig& config, const ProductWork& work) {
  return folds(config) && !has_gaps(work) && work.groups == 1 && !work.channel_wise &&
         !work.transpose && !work.sums_in_parts && !work.across_channels;
}

// The taps of a tile of input pixels in columns. Positions are whole, so that passes add to the same
// entries of PSUM; none where the sums that wait for further rows, beside the parts of a chain that is
// made, that drains and that is taken, do not fit it.
std::optional<TapFold> taps_of_tile(const NeuralEngineConfig& config, const ProductWork& work,
                                    const FoldShape& shape, const Tile& tile) {
  constexpr std::int64_t kPartsAtOnce = 3;
  const std::int64_t channels = shape.output_channels;
  const Tile reached{outputs_reached(tile.h, work.kernel_h, work.stride_h),
                     outputs_reached(tile.w, work.kernel_w, work.stride_w)};
  const Tile outputs{tile.h / work.stride_h, tile.w / work.stride_w};
  const std::int64_t blocks = ceil_div(reached.pixels(), config.columns / channels);
  TapFold found{.fold = {},
                .outputs_high = outputs.h,
                .across = moving_along(work.columns, work.kernel_w, work.stride_w, tile.w)};
  // Outputs of several kinds lie apart where a column has more than one position.
  const std::int64_t kinds = blocks == 1 ? 1 : outputs.pixels();
  const std::int64_t entries = config.psum_banks * config.psum_bank_columns / kinds;
  const std::int64_t room = (entries - reached.h * found.across) / kPartsAtOnce;
  found.at_once = std::min<std::int64_t>(room, config.psum_bank_columns);
  if (found.at_once < std::min<std::int64_t>(config.rows, found.columns(work, 0, shape.rows)))
    return {};
  const std::int64_t kernel_rows = ceil_div(config.columns / channels, reached.w) + 1;
  const auto passes = [&](const Part& part) {
    return ChainPasses{.count = part.count * blocks,
                       .pace = ceil_div(tile.pixels(), work.port_elements),
                       .elements = tile.pixels(),
                       .loads = reads_of_row(config, work, std::min(kernel_rows, work.kernel_h)),
                       .stacked = tile.pixels()};
  };
  const Parts parts = parts_of(config, work, 1);
  found.fold = {
      .tile_h = tile.h,
      .tile_w = tile.w,
      .full = passes(parts.full),
      .rest = passes(parts.rest),
      .result_cycles = result_cycles(config, work, outputs.pixels(), outputs.pixels() * channels)};
  return found;
}

}  // namespace

std::int64_t TapFold::columns(const ProductWork& work, std::int64_t first,
                              std::int64_t rows) const {
  const auto until = [&](std::int64_t outputs) {
    return outputs == 0
               ? 0
               : moving_along(outputs, work.kernel_h, work.stride_h, outputs_high * work.stride_h);
  };
  return std::max<std::int64_t>(1, until(first + rows) - until(first)) * across;
}

bool columns_meet(const NeuralEngineConfig& config, const ProductWork& work) {
  return places_freely(config, work) && work.cut == BlockCut::kChannel &&
         work.kernel_h * work.kernel_w > 1 && work.dilation_h == 1 && work.dilation_w == 1 &&
         2 * work.output_channels <= config.columns;
}

std::optional<TapFold> tap_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape) {
  std::optional<TapFold> best;
  if (!columns_meet(config, work)) return best;
  const auto cycles = [&](const TapFold& of) {
    return fold_cycles(config, work, of.fold, of.columns(work, 0, shape.rows));
  };
  const bool rest_alone = work.channels < config.rows;
  const std::int64_t most = rest_alone ? stacked_max(config, work, work.channels) : 1;
  for (std::int64_t h = work.stride_h; h <= most; h += work.stride_h) {
    for (std::int64_t w = work.stride_w; w <= most / h; w += work.stride_w) {
      const auto found = taps_of_tile(config, work, shape, {h, w});
      if (found && (!best || cycles(*found) < cycles(*best))) best = found;
    }
  }
  return best;
}

namespace {

// Pixels of which a block of columns has outputs, at most, where `pixels` lie one behind the other.
std::int64_t pixels_of_block(std::int64_t pixels, std::int64_t channels, std::int64_t columns) {
  std::int64_t most = 1;
  for (std::int64_t first = 0; first < pixels * channels; first += columns) {
    const std::int64_t last = std::min(first + columns, pixels * channels) - 1;
    most = std::max(most, last / channels - first / channels + 1);
  }
  return most;
}

}  // namespace

std::optional<CutFold> cut_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape) {
  std::optional<CutFold> best;
  if (!places_freely(config, work) || work.kernel_h * work.kernel_w != 1) return best;
  Cycles least = 0;
  for (std::int64_t pixels = 2; pixels <= config.fold_pixels_max; ++pixels) {
    const std::int64_t touched = pixels_of_block(pixels, shape.output_channels, config.columns);
    if (touched * work.channels > config.rows) continue;
    const CutFold found{
        .fold = {.tile_w = pixels,
                 .full = {},
                 .rest = {.count = 1,
                          .pace = ceil_div(touched, work.port_elements),
                          .elements = touched,
                          .side_by_side = touched},
                 .result_cycles = result_cycles(config, work, touched, config.columns)},
        .blocks = ceil_div(pixels * shape.output_channels, config.columns)};
    const Cycles cycles = found.blocks * fold_cycles(config, work, found.fold,
                                                     shape.rows * ceil_div(work.columns, pixels));
    if (best && cycles >= least) continue;
    least = cycles;
    best = found;
  }
  return best;
}

Cycles stream_cycles(const ChainPasses& passes, std::int64_t columns) {
  return ceil_div(columns * passes.pace, passes.turns);
}

std::int64_t stream_elements(const ChainPasses& passes, std::int64_t columns) {
  return ceil_div(columns * passes.elements, passes.turns);
}

namespace {

// The folds that a thread looked for last: the steps of a layer are alike, and come one behind the other.
class RecentFolds {
 public:
  template <typename Find>
  ArrayFold fold(const NeuralEngineConfig& config, const ProductWork& work, const FoldShape& shape,
                 std::int64_t taps, Find&& find) {
    for (const Entry& entry : entries_) {
      if (entry.taps == taps && entry.shape == shape && entry.work == work &&
          entry.config == config) {
        return entry.fold;
      }
    }
    Entry& oldest = entries_[next_++ % entries_.size()];
    oldest = {taps, shape, work, config, find()};
    return oldest.fold;
  }

 private:
  struct Entry {
    std::int64_t taps = -1;  // of none
    FoldShape shape;
    ProductWork work;
    NeuralEngineConfig config;
    ArrayFold fold;
  };
  std::array<Entry, 8> entries_;
  std::size_t next_ = 0;
};

}  // namespace

ArrayFold array_fold(const NeuralEngineConfig& config, const ProductWork& work,
                     const FoldShape& shape, std::int64_t taps) {
  if (has_gaps(work) || !folds(config)) return unfolded(config, work, taps);
  thread_local RecentFolds recent;
  return recent.fold(config, work, shape, taps, [&] {
    const TileGrid grid{shape.rows, work.columns};
    return best_fold({config, work, shape, grid, parts_of(config, work, taps)});
  });
}

std::optional<GapFold> gap_fold(const NeuralEngineConfig& config, const ProductWork& work,
                                const FoldShape& shape) {
  const bool dense =
      work.stride_h == 1 && work.stride_w == 1 && work.dilation_h == 1 && work.dilation_w == 1;
  if (!has_gaps(work) || !folds(config) || !dense || work.groups != 1 ||
      work.cut != BlockCut::kChannel) {
    return std::nullopt;
  }
  const TileGrid grid{.rows = shape.rows,
                      .columns = work.columns,
                      .row_first = shape.row_first - work.pad_top,
                      .column_first = -work.pad_left,
                      .kernel_h = work.kernel_h,
                      .kernel_w = work.kernel_w,
                      .gap_h = work.input_dilation_h,
                      .gap_w = work.input_dilation_w};
  const ArrayFold fold = best_fold({config, work, shape, grid, parts_of(config, work, 1)});
  const Tile tile{fold.tile_h, fold.tile_w};
  if (fold.full.count == 0 && fold.rest.count == 0) return std::nullopt;
  return GapFold{fold, grid.columns_of(tile).pixels()};
}

bool stacks_blocks(const NeuralEngineConfig& config, const ProductWork& work) {
  const std::int64_t rest = work.channels % config.rows;
  return work.native_dimension != 0 && work.kernel_h * work.kernel_w > 1 && folds(config) &&
         (stacked_max(config, work, rest) > 1 || filled_rows(config, work, rest) != 0);
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
