#include "arch/cost.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "arch/array_fold.h"
#include "arch/dram_config.h"

namespace tessera {
namespace {

std::int64_t floor_mod(std::int64_t a, std::int64_t b) { return (a % b + b) % b; }

// Numbers in [first, first + count) that are `residue` modulo `period`.
std::int64_t count_residues(std::int64_t first, std::int64_t count, std::int64_t residue,
                            std::int64_t period) {
  const std::int64_t skip = floor_mod(residue - first, period);
  return skip >= count ? 0 : (count - skip - 1) / period + 1;
}

// One axis of a convolution whose input may be dilated: output positions fall into phases, and only
// some taps of the kernel meet a sample in each.
struct Axis {
  std::int64_t kernel, stride, pad, dilation, input_dilation;

  std::int64_t period() const { return input_dilation / std::gcd(stride, input_dilation); }
  std::int64_t taps(std::int64_t phase) const {
    std::int64_t count = 0;
    for (std::int64_t k = 0; k < kernel; ++k) {
      count += floor_mod(phase * stride + k * dilation - pad, input_dilation) == 0;
    }
    return count;
  }
};

// Calls visit(pixels, taps) for every phase of the step that has pixels.
template <typename Visit>
void for_each_phase(const ProductWork& work, const StepRows& step, Visit visit) {
  if (work.input_dilation_h == 1 && work.input_dilation_w == 1) {
    visit(step.rows * work.columns, work.kernel_h * work.kernel_w);
    return;
  }
  const Axis y{work.kernel_h, work.stride_h, work.pad_top, work.dilation_h, work.input_dilation_h};
  const Axis x{work.kernel_w, work.stride_w, work.pad_left, work.dilation_w, work.input_dilation_w};
  for (std::int64_t phase_y = 0; phase_y < y.period(); ++phase_y) {
    const std::int64_t rows = count_residues(step.row_first, step.rows, phase_y, y.period());
    if (rows == 0) continue;
    const std::int64_t taps_y = y.taps(phase_y);
    for (std::int64_t phase_x = 0; phase_x < x.period(); ++phase_x) {
      const std::int64_t columns = count_residues(0, work.columns, phase_x, x.period());
      if (columns != 0) visit(rows * columns, taps_y * x.taps(phase_x));
    }
  }
}

// Cycles of the chains of a step, and what the very last pass of them takes.
struct Chains {
  Cycles cycles = 0;
  Cycles last_pass = 0;    // as charged
  Cycles last_stream = 0;  // moving columns only
  Cycles last_drain = 0;   // until the post-processor leaves its bank
  std::int64_t stall_thousandths = 0;
  std::int64_t moving_elements = 0;  // of a partition
};

// `repeat` chains over `pixels` moving columns cut into PSUM banks: passes that are alike,
// `earlier` of another kind before them.
struct Band {
  std::int64_t repeat = 1;
  ChainPasses earlier{}, passes{.count = 1};
  std::int64_t pixels = 1;
  Cycles load = 1;  // of the next weights, channel-wise
  std::int64_t result_cycles =
      0;                     // until those of a moving column have left; 0: the post-processor's
  std::int64_t at_once = 0;  // moving columns of a part, at most; 0: what a bank holds
};

// A pass over n moving columns: rows of `width` columns, cut into commands.
struct Stream {
  Cycles cycles = 0;
  std::int64_t commands = 0;
};

Stream stream_of(const NeuralEngineConfig& config, std::int64_t width, std::int64_t pace,
                 std::int64_t n) {
  const std::int64_t piece = config.command_columns;
  if (piece == 0) return {n * pace, 1};
  const auto add_row = [&](std::int64_t columns, std::int64_t times, Stream& stream) {
    const std::int64_t rest = columns % piece;
    const auto command = [&](std::int64_t taken) {
      return std::max<Cycles>(taken * pace, config.command_cycles_min);
    };
    stream.cycles += times * (columns / piece * command(piece) + (rest != 0 ? command(rest) : 0));
    stream.commands += times * ceil_div(columns, piece);
  };
  Stream stream;
  if (n >= width) add_row(width, n / width, stream);
  if (n % width != 0) add_row(n % width, 1, stream);
  return stream;
}

// How a chain of passes is charged: everything but the number of moving columns.
class PassCost {
 public:
  PassCost(const NeuralEngineConfig& config, const ProductWork& work, const Band& band)
      : config_(config),
        work_(work),
        band_(band),
        serial_(config.folds == Folds::kSerial),
        post_cycles_(band.result_cycles != 0 ? band.result_cycles : work.post_cycles),
        bank_gap_(work.channel_wise ? 1 : ceil_div(config.columns, config.psum_banks)) {}

  // All passes of a chain but the last.
  Cycles but_last(std::int64_t n) const {
    return band_.earlier.count * pass(n, band_.earlier) +
           (band_.passes.count - 1) * pass(n, band_.passes);
  }
  // The last pass of a chain, if the next chain hides `hidden` cycles of its drain.
  Cycles last_pass(std::int64_t n, Cycles hidden) const {
    const Cycles last = pass(n, band_.passes);
    if (work_.keeps_sums) return last;
    if (serial_) return last + (post_cycles_ - 1) * n;
    return std::max<Cycles>({last, bank_gap_, drain(n) - hidden});
  }
  Cycles drain(std::int64_t n) const {
    if (work_.keeps_sums) return 0;
    return (post_cycles_ - 1) * n + std::max(n, bank_gap_);
  }
  // The last pass of a task, whose skew is part of its drain.
  Cycles last_stream(std::int64_t n) const {
    const Cycles cycles = stream(n, band_.passes);
    if (work_.keeps_sums) return cycles;
    const Cycles post = serial_ ? cycles + (post_cycles_ - 1) * n : n * post_cycles_;
    return std::max(cycles, post);
  }
  std::int64_t moving_elements(std::int64_t n) const {
    if (work_.channel_wise || work_.transpose) return 0;
    return work_.column_repeats * (band_.earlier.count * stream_elements(band_.earlier, n) +
                                   band_.passes.count * stream_elements(band_.passes, n));
  }
  std::int64_t stall_thousandths(std::int64_t n) const {
    return (band_.earlier.count + band_.passes.count) *
           (config_.tile_stall_thousandths +
            stream(n, 1).commands * config_.command_stall_thousandths);
  }

 private:
  Stream stream(std::int64_t n, std::int64_t pace) const {
    return stream_of(config_, work_.columns, pace * work_.column_repeats, n);
  }
  Cycles stream(std::int64_t n, const ChainPasses& passes) const {
    if (passes.turns == 1) return stream(n, passes.pace).cycles;
    return stream_cycles(passes, n) * work_.column_repeats;
  }
  Cycles pass(std::int64_t n, const ChainPasses& passes) const {
    const Cycles load = work_.channel_wise ? band_.load : passes.loads * config_.rows;
    const Cycles cycles = stream(n, passes);
    return serial_ ? cycles + last_mac() + load : std::max<Cycles>(cycles, load);
  }
  // From the last moving column in to the last multiply-accumulate.
  Cycles last_mac() const {
    return work_.channel_wise ? config_.rows - 1 : config_.rows + config_.columns - 2;
  }

  const NeuralEngineConfig& config_;
  const ProductWork& work_;
  const Band& band_;
  const bool serial_;
  const std::int64_t post_cycles_, bank_gap_;
};

// The columns are cut in equal parts, as few as the banks allow.
void add_chains(const NeuralEngineConfig& config, const ProductWork& work, Band band,
                Chains& chains) {
  band.earlier.count *= work.kernel_repeats;
  band.passes.count *= work.kernel_repeats;
  const std::int64_t at_once = band.at_once != 0 ? band.at_once : config.psum_bank_columns;
  const std::int64_t parts = std::max<std::int64_t>(1, ceil_div(band.pixels, at_once));
  const std::int64_t most = ceil_div(band.pixels, parts);
  const std::int64_t shorter = most * parts - band.pixels;  // parts with a column less
  const std::int64_t last = shorter != 0 ? most - 1 : most;
  const PassCost cost(config, work, band);
  const Cycles hidden = config.psum_banks > 1 ? cost.but_last(last) : 0;
  const auto add = [&](std::int64_t n, std::int64_t times) {
    chains.cycles += times * (cost.but_last(n) + cost.last_pass(n, hidden));
    chains.stall_thousandths += times * cost.stall_thousandths(n);
    chains.moving_elements += times * cost.moving_elements(n);
  };
  add(most, band.repeat * (parts - shorter));
  if (shorter != 0) add(last, band.repeat * shorter);
  chains.last_pass = cost.last_pass(last, 0);
  chains.last_stream = cost.last_stream(last);
  chains.last_drain = cost.drain(last);
  // No chain follows that hides it.
  chains.cycles += chains.last_pass - cost.last_pass(last, hidden);
}

// How many things of a step an engine has: full blocks, and whether the rest block is its own.
struct BlockShare {
  std::int64_t full = 0, rest = 0;
};

// `all` in blocks of `width`, shared by broadcast: the rest block is one behind the full ones.
BlockShare block_share(std::int64_t all, std::int64_t width, const EngineShare& share) {
  const std::int64_t full = all / width;
  return {share.of(full), full % share.count == share.index ? all % width : 0};
}

// A step and who takes which part of it.
struct SharedStep {
  const StepRows& rows;
  const StepSharing sharing;
  const EngineShare& share;
  bool broadcast() const { return sharing == StepSharing::kBroadcast; }
  BlockShare blocks(std::int64_t all, std::int64_t width) const {
    return broadcast() ? block_share(all, width, share) : BlockShare{all / width, all % width};
  }
  // Of pixels: all of them, or the engine's.
  std::int64_t pixels(std::int64_t all) const { return broadcast() ? all : share.of(all); }
  // The engine's of `all` pixels that lie in `columns` moving columns.
  std::int64_t pixels_of(std::int64_t all, std::int64_t columns) const {
    if (broadcast()) return all;
    const auto before = [&](std::int64_t e) {  // columns of the engines before engine e
      return e * (columns / share.count) + std::min(e, columns % share.count);
    };
    return all * before(share.index + 1) / columns - all * before(share.index) / columns;
  }
};

// Moving columns of `pixels` pixels of a step; products with phases do not fold.
std::int64_t moving_columns(const ProductWork& work, const StepRows& step, const ArrayFold& fold,
                            std::int64_t pixels) {
  return fold.tile_h * fold.tile_w == 1
             ? pixels
             : ceil_div(step.rows, fold.tile_h) * ceil_div(work.columns, fold.tile_w);
}

// One fold's passes over `columns` moving columns, `blocks` times.
void add_fold(const NeuralEngineConfig& config, const ProductWork& work, const ArrayFold& fold,
              std::int64_t blocks, std::int64_t columns, Chains& chains, std::int64_t at_once = 0) {
  Band band{.repeat = ceil_div(work.groups, fold.groups) * blocks,
            .earlier = fold.full,
            .passes = fold.rest,
            .pixels = columns,
            .result_cycles = fold.result_cycles,
            .at_once = at_once};
  if (band.pixels == 0) return;
  if (band.passes.count == 0) std::swap(band.earlier, band.passes);
  // Pixels that no tap reaches still pass once, for the bias and the post-processor.
  if (band.passes.count == 0) band.passes.count = 1;
  add_chains(config, work, band, chains);
}

// Phase by phase, where there are gaps in the input.
Chains phase_chains(const NeuralEngineConfig& config, const ProductWork& work,
                    const SharedStep& shared) {
  Chains chains;
  const StepRows& step = shared.rows;
  const auto [full, rest] = shared.blocks(work.output_channels, config.columns);
  for_each_phase(work, step, [&, full = full, rest = rest](std::int64_t pixels, std::int64_t taps) {
    const auto fold_of = [&](std::int64_t output_channels) {
      return array_fold(config, work, {step.rows, output_channels}, taps);
    };
    const auto add = [&](std::int64_t blocks, const ArrayFold& fold) {
      const std::int64_t columns = moving_columns(work, step, fold, pixels);
      add_fold(config, work, fold, blocks, shared.pixels(columns), chains);
    };
    if (full == 0 && rest == 0) return;
    if (full == 0) return add(1, fold_of(rest));
    const ArrayFold plain = fold_of(config.columns);
    if (rest == 0) return add(full, plain);
    const ArrayFold folded = fold_of(rest);
    // A rest that does not fold is a block like the others.
    if (folded.tile_h * folded.tile_w == 1) return add(full + 1, plain);
    add(full, plain);
    add(1, folded);
  });
  return chains;
}

// Steps of a task go on with the sums of the one before, so all are folded alike: as the whole task takes
// less.
std::optional<Chains> tap_chains(const NeuralEngineConfig& config, const ProductWork& work,
                                 const SharedStep& shared) {
  const StepRows& step = shared.rows;
  if (shared.share.count != 1 || !columns_meet(config, work)) return std::nullopt;
  const std::int64_t rows = step.rows_of_step != 0 ? step.rows_of_step : step.rows;
  const std::int64_t all = step.rows_of_task != 0 ? step.rows_of_task : step.rows;
  const auto folded = tap_fold(config, work, {all, work.output_channels});
  if (!folded) return std::nullopt;
  const auto chains = [&](std::int64_t first, std::int64_t count) {
    Chains made;
    add_fold(config, work, folded->fold, 1, folded->columns(work, first, count), made,
             folded->at_once);
    return made;
  };
  const std::int64_t later = ceil_div(all, rows) - 1;
  const Cycles taps = chains(0, rows).cycles + (later != 0 ? later * chains(rows, rows).cycles : 0);
  const StepRows like{.row_first = 0, .rows = rows};
  const Cycles apart = phase_chains(config, work, {like, shared.sharing, shared.share}).cycles;
  if (taps >= (later + 1) * apart) return std::nullopt;
  return chains(rows == step.rows && all == rows ? 0 : step.row_first, step.rows);
}

// Pixels cut between blocks of columns.
std::optional<Chains> cut_chains(const NeuralEngineConfig& config, const ProductWork& work,
                                 const SharedStep& shared) {
  if (shared.share.count != 1) return std::nullopt;
  const auto folded = cut_fold(config, work, {shared.rows.rows, work.output_channels});
  if (!folded) return std::nullopt;
  Chains chains;
  const std::int64_t columns = shared.rows.rows * ceil_div(work.columns, folded->fold.tile_w);
  add_fold(config, work, folded->fold, folded->blocks, columns, chains);
  return chains;
}

// As the product takes least: phase by phase, all phases at once, taps or parts of pixels in columns.
Chains product_chains(const NeuralEngineConfig& config, const ProductWork& work,
                      const SharedStep& shared) {
  if (const auto taps = tap_chains(config, work, shared)) return *taps;
  const Chains phases = phase_chains(config, work, shared);
  if (const auto cut = cut_chains(config, work, shared)) {
    return cut->cycles < phases.cycles ? *cut : phases;
  }
  const auto [full, rest] = shared.blocks(work.output_channels, config.columns);
  if (full != 0 || rest == 0) return phases;
  const auto folded = gap_fold(config, work, {shared.rows.rows, rest, shared.rows.row_first});
  if (!folded) return phases;
  Chains all;
  add_fold(config, work, folded->fold, 1, shared.pixels(folded->columns), all);
  return all.cycles < phases.cycles ? all : phases;
}

std::int64_t channels_of(const ProductWork& work) { return work.groups * work.output_channels; }

Chains pixel_band_chains(const NeuralEngineConfig& config, const ProductWork& work,
                         const SharedStep& shared, const PixelBand& band) {
  Chains chains;
  std::int64_t blocks = ceil_div(channels_of(work), band.channels);
  if (shared.broadcast()) blocks = shared.share.of(blocks);
  const std::int64_t columns =
      shared.pixels(shared.rows.rows * ceil_div(work.columns, band.outputs));
  if (blocks == 0 || columns == 0) return chains;
  add_chains(config, work,
             {.repeat = blocks,
              .passes = {.count = work.kernel_h},
              .pixels = columns,
              .load = work.kernel_w},
             chains);
  return chains;
}

// A block is as many channels as the diagonal has places; the last one may leave places free, to
// which the input buffer's shifter sends further pixels of the same channels.
Chains channel_wise_chains(const NeuralEngineConfig& config, const ProductWork& work,
                           const SharedStep& shared) {
  if (const auto band = pixel_band(config, work)) {
    return pixel_band_chains(config, work, shared, *band);
  }
  Chains chains;
  const std::int64_t width = std::min(config.rows, config.columns);
  const BlockShare blocks = shared.blocks(channels_of(work), width);
  for_each_phase(work, shared.rows, [&](std::int64_t pixels, std::int64_t taps) {
    const std::int64_t share = shared.pixels(pixels);
    if (share == 0) return;
    const ChainPasses passes{.count = std::max<std::int64_t>(1, taps)};
    if (blocks.full != 0) {
      add_chains(config, work, {.repeat = blocks.full, .passes = passes, .pixels = share}, chains);
    }
    if (blocks.rest != 0) {
      const std::int64_t fold = std::min(work.port_elements, width / blocks.rest);
      add_chains(config, work, {.passes = passes, .pixels = ceil_div(share, fold)}, chains);
    }
  });
  return chains;
}

// Passes along an axis of `extent` cut into blocks of `block`, each cut again to `part`.
std::int64_t passes_along(std::int64_t extent, std::int64_t block, std::int64_t part) {
  return extent / block * ceil_div(block, part) + ceil_div(extent % block, part);
}

// Parts of blocks, R x C, are the weights, columns of the identity stream: one pass a part. P is a
// multiple of R, so along the channels only the last part may be shorter.
Chains transpose_chains(const NeuralEngineConfig& config, const ProductWork& work,
                        const SharedStep& shared) {
  Chains chains;
  const std::int64_t blocks =
      shared.rows.rows *
      shared.share.of(passes_along(work.output_channels, work.partitions, config.columns));
  if (blocks == 0) return chains;
  const std::int64_t full = work.channels / config.rows;
  const std::int64_t rest = work.channels % config.rows;
  if (full != 0) add_chains(config, work, {.repeat = blocks * full, .pixels = config.rows}, chains);
  if (rest != 0) add_chains(config, work, {.repeat = blocks, .pixels = rest}, chains);
  return chains;
}

// Output-stationary: `repeat` sets of `folds` folds of R x C sums, `depth` values streamed for
// each, `at_once` of them from one partition.
struct FoldBand {
  std::int64_t repeat = 1, folds = 1, depth = 1, at_once = 1;
};

void add_folds(const NeuralEngineConfig& config, const ProductWork& work, const FoldBand& band,
               Chains& chains) {
  const std::int64_t pace = ceil_div(band.at_once, work.port_elements);
  const std::int64_t depth = band.depth * work.column_repeats * work.kernel_repeats;
  const Cycles stream = depth * pace;
  const Cycles post = (work.post_cycles - 1) * config.rows;
  const Cycles fold = config.folds == Folds::kSerial
                          ? stream + config.rows + config.columns - 2 + post
                          : std::max<Cycles>(stream, config.rows * work.post_cycles);
  chains.cycles += band.repeat * band.folds * fold;
  chains.stall_thousandths +=
      band.repeat * band.folds * (config.tile_stall_thousandths + config.command_stall_thousandths);
  if (!work.channel_wise && !work.transpose) {
    chains.moving_elements += band.repeat * band.folds * depth * band.at_once;
  }
  chains.last_pass = fold;
  chains.last_stream = stream + post;
}

// Rows take pixels, columns output channels. A channel-wise product has one column for each
// channel.
Chains output_stationary_folds(const NeuralEngineConfig& config, const ProductWork& work,
                               const SharedStep& shared) {
  Chains chains;
  const StepRows& step = shared.rows;
  if (work.transpose) {
    const std::int64_t folds = shared.share.of(ceil_div(work.output_channels, config.rows));
    if (folds == 0) return chains;
    const std::int64_t full = work.channels / config.columns;
    const std::int64_t rest = work.channels % config.columns;
    const FoldBand band{.repeat = step.rows * folds, .folds = full, .depth = config.columns};
    if (full != 0) add_folds(config, work, band, chains);
    if (rest != 0) add_folds(config, work, {.repeat = band.repeat, .depth = rest}, chains);
    return chains;
  }
  std::int64_t blocks = work.channel_wise ? work.groups * work.output_channels
                                          : ceil_div(work.output_channels, config.columns);
  if (shared.broadcast()) blocks = shared.share.of(blocks);
  const std::int64_t channels = work.channel_wise ? 1 : work.channels;
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
    const std::int64_t share = shared.pixels(pixels);
    if (share == 0 || blocks == 0) return;
    // Row r is r values behind row 0: with few channels, rows read one partition for several taps.
    const std::int64_t at_once =
        std::min(std::max<std::int64_t>(1, taps), ceil_div(config.rows, channels));
    add_folds(config, work,
              {.repeat = work.channel_wise ? blocks : work.groups * blocks,
               .folds = ceil_div(share, config.rows),
               .depth = std::max<std::int64_t>(1, taps * channels),
               .at_once = at_once},
              chains);
  });
  return chains;
}

Chains chains_of(const NeuralEngineConfig& config, const ProductWork& work,
                 const SharedStep& shared) {
  if (config.dataflow == Dataflow::kOutputStationary) {
    return output_stationary_folds(config, work, shared);
  }
  if (work.transpose) return transpose_chains(config, work, shared);
  if (work.channel_wise) return channel_wise_chains(config, work, shared);
  return product_chains(config, work, shared);
}

// Cycles of an engine's own clock in cycles of the core's.
template <typename EngineConfig>
Cycles core_cycles(const EngineConfig& config, Cycles cycles) {
  return ceil_div(cycles * 1000, config.clock_thousandths);
}

Cycles undivided_result_cycles(const NeuralEngineConfig& config) {
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  return (sums_stay ? config.rows : 1) + config.post_processor_latency_cycles;
}

}  // namespace

TransposeBlocks transpose_blocks(const MatrixExtents& matrix, const BlockExtents& block) {
  const std::int64_t p = block.partitions;
  return {.blocks = ((matrix.channels - 1) / p + 1) * ((matrix.columns - 1) / p + 1),
          .passes = passes_along(matrix.channels, p, block.rows) *
                    passes_along(matrix.columns, p, block.columns)};
}

ArrayStep array_step(const NeuralEngineConfig& config, const ProductWork& work,
                     const StepRows& step, StepSharing sharing, const EngineShare& share) {
  const Chains chains = chains_of(config, work, {step, sharing, share});
  const Cycles cycles = chains.cycles + ceil_div(chains.stall_thousandths, 1000);
  const Cycles charged =
      step.last_of_task ? cycles - chains.last_pass + chains.last_stream : cycles;
  return {core_cycles(config, charged), chains.moving_elements};
}

Cycles neural_step_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing, const EngineShare& share) {
  return array_step(config, work, step, sharing, share).cycles;
}

namespace {

// Of `engines` that share a step, the longest. Engine 0 has the most blocks; the one with the rest
// block, fewer of which fit beside each other than full ones, may all the same take longer.
ArrayStep longest_share(const NeuralEngineConfig& config, const ProductWork& work,
                        const StepRows& step, StepSharing sharing, std::int64_t engines) {
  const auto of = [&](std::int64_t engine) {
    return array_step(config, work, step, sharing, {.index = engine, .count = engines});
  };
  const std::int64_t width =
      work.channel_wise ? std::min(config.rows, config.columns) : config.columns;
  const std::int64_t all = work.channel_wise ? channels_of(work) : work.output_channels;
  const std::int64_t owner = all / width % engines;
  const bool other = sharing == StepSharing::kBroadcast && all % width != 0 && owner != 0;
  ArrayStep longest = of(0);
  if (!other) return longest;
  const ArrayStep owners = of(owner);
  return {std::max(longest.cycles, owners.cycles),
          std::max(longest.moving_elements, owners.moving_elements)};
}

}  // namespace

ArrayStep array_step(const NeuralEngineConfig& config, const ProductWork& work,
                     const StepRows& step, StepSharing sharing) {
  return longest_share(config, work, step, sharing, config.count);
}

Cycles neural_step_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing) {
  return array_step(config, work, step, sharing).cycles;
}

LastPass neural_last_pass(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing, const EngineShare& share) {
  const Chains chains = chains_of(config, work, {step, sharing, share});
  return {chains.last_stream, chains.last_drain};
}

LastPass neural_last_pass(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing) {
  return neural_last_pass(config, work, step, sharing, {.index = 0, .count = config.count});
}

StepSharing neural_sharing(const NeuralEngineConfig& config, const ProductWork& work,
                           std::int64_t rows) {
  return neural_sharing(config, work, rows, config.count);
}

StepSharing neural_sharing(const NeuralEngineConfig& config, const ProductWork& work,
                           std::int64_t rows, std::int64_t engines) {
  if (engines == 1 || work.transpose) return StepSharing::kBroadcast;
  if (work.across_channels) return StepSharing::kUnicast;
  const StepRows step{0, rows, false};
  const auto cycles = [&](StepSharing sharing) {
    return longest_share(config, work, step, sharing, engines).cycles;
  };
  const Cycles broadcast = cycles(StepSharing::kBroadcast);
  const Cycles unicast = cycles(StepSharing::kUnicast);
  return unicast < broadcast ? StepSharing::kUnicast : StepSharing::kBroadcast;
}

Cycles neural_exponent_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  if (work.channel_wise || work.transpose) return 0;
  const std::int64_t taps = work.cut == BlockCut::kIm2col ? work.kernel_h * work.kernel_w : 1;
  const std::int64_t values = std::min(work.native_dimension, taps * work.channels);
  if (values <= config.rows) return 0;
  const std::int64_t words = std::min(taps, ceil_div(values, work.channels));
  const auto groups = static_cast<std::uint64_t>(ceil_div(values, config.rows));
  return core_cycles(config, words + std::bit_width(groups - 1));
}

Cycles neural_first_load_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  const Cycles exponent = neural_exponent_cycles(config, work);
  if (config.dataflow == Dataflow::kOutputStationary) return exponent;
  if (!work.channel_wise) return std::max(exponent, core_cycles(config, config.rows));
  return core_cycles(config, pixel_band(config, work) ? work.kernel_w : 1);
}

Cycles neural_result_cycles(const NeuralEngineConfig& config) {
  return core_cycles(config, undivided_result_cycles(config));
}

Cycles micro_tree_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  if (work.channel_wise || work.transpose || sums_stay) return 0;
  // Sums that meet behind the columns pass a tree as deep as the array has columns.
  const Cycles across = columns_meet(config, work)
                            ? std::bit_width(static_cast<std::uint64_t>(config.columns - 1))
                            : 0;
  if (!work.micro_blocks && !stacks_blocks(config, work)) return across;
  const auto sums = static_cast<std::uint64_t>(ceil_div(config.rows, kTreeRows));
  return across + std::bit_width(sums - 1);
}

Cycles neural_drain_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  // On the diagonal every channel makes R - 1 hops in all: r to the right, R - 1 - r down.
  const bool diagonal = work.channel_wise && !sums_stay && !pixel_band(config, work);
  const Cycles skew = diagonal ? config.rows - 1 : config.rows + config.columns - 2;
  // Sums that stay are there a cycle behind the array.
  const Cycles result = work.keeps_sums ? 1 : undivided_result_cycles(config);
  return core_cycles(config, skew + micro_tree_cycles(config, work) + result);
}

std::int64_t neural_step_macs(const ProductWork& work, const StepRows& step) {
  if (work.transpose) return 0;
  std::int64_t sum = 0;
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) { sum += pixels * taps; });
  return sum * work.groups * work.output_channels * (work.channel_wise ? 1 : work.channels);
}

std::int64_t neural_step_macs(const NeuralEngineConfig& config, const ProductWork& work,
                              const StepRows& step, StepSharing sharing, const EngineShare& share) {
  if (share.count == 1) return neural_step_macs(work, step);
  if (work.transpose) return 0;
  const SharedStep shared{step, sharing, share};
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  std::int64_t macs = 0;
  if (work.channel_wise) {
    std::int64_t width = sums_stay ? 1 : std::min(config.rows, config.columns);
    std::int64_t side_by_side =
        0;  // output pixels of a row of the image in a column; 0: any, alone
    if (!sums_stay) {
      if (const auto band = pixel_band(config, work)) {
        width = band->channels;
        side_by_side = band->outputs;
      }
    }
    const BlockShare blocks = shared.blocks(channels_of(work), width);
    for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
      const std::int64_t columns =
          side_by_side == 0 ? pixels : step.rows * ceil_div(work.columns, side_by_side);
      macs += shared.pixels_of(pixels, columns) * taps * (blocks.full * width + blocks.rest);
    });
    return macs;
  }
  const BlockShare blocks = shared.blocks(work.output_channels, config.columns);
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
    const auto add = [&](std::int64_t fold_channels, std::int64_t channels) {
      if (channels == 0) return;
      const ArrayFold fold =
          sums_stay ? ArrayFold{} : array_fold(config, work, {step.rows, fold_channels}, taps);
      macs += shared.pixels_of(pixels, moving_columns(work, step, fold, pixels)) * taps * channels;
    };
    add(config.columns, blocks.full * config.columns);
    add(blocks.rest, blocks.rest);
  });
  return macs * work.groups * work.channels;
}

Cycles neural_task_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const TaskBands& bands) {
  const StepSharing sharing = neural_sharing(config, work, bands.rows_per_step, config.count);
  Cycles image = 0;
  Cycles last_saving = 0;
  for (std::int64_t row = 0; row < bands.rows; row += bands.rows_per_step) {
    StepRows step{.row_first = row,
                  .rows = std::min(bands.rows_per_step, bands.rows - row),
                  .rows_of_step = std::min(bands.rows_per_step, bands.rows),
                  .rows_of_task = bands.rows};
    const Cycles cycles = neural_step_cycles(config, work, step, sharing);
    step.last_of_task = true;
    last_saving = cycles - neural_step_cycles(config, work, step, sharing);
    image += cycles;
  }
  return config.task_start_cycles + neural_first_load_cycles(config, work) + bands.images * image -
         last_saving + neural_drain_cycles(config, work);
}

std::int64_t unary_function_cycles(UnaryFunction function) {
  switch (unary_row(function).kind) {
    case UnaryKind::kLine:
      return 1;  // comparators and one multiply-add
    case UnaryKind::kTranscendental:
      return 2;  // a table two lanes share
    case UnaryKind::kQuotient:
      break;
  }
  return 4;  // the post-processor's iterative unit
}

std::int64_t binary_function_cycles(BinaryFunction function) {
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMultiply:
    case BinaryFunction::kMaximum:
    case BinaryFunction::kMinimum:
    case BinaryFunction::kPRelu:
    case BinaryFunction::kEqual:
    case BinaryFunction::kLess:
    case BinaryFunction::kLessOrEqual:
    case BinaryFunction::kWhen:
    case BinaryFunction::kUnless:
      return 1;
    case BinaryFunction::kDivide:
      return 4;  // the iterative unit
    case BinaryFunction::kPower:
      return 8;  // logarithm, product, exponential
  }
  return 8;
}

std::int64_t reduce_function_cycles(ReduceFunction function) {
  switch (function) {
    case ReduceFunction::kSum:
    case ReduceFunction::kMean:
    case ReduceFunction::kMaximum:
    case ReduceFunction::kMinimum:
    case ReduceFunction::kProduct:
    case ReduceFunction::kSumAbsolute:
    case ReduceFunction::kSumSquare:
      return 1;
    case ReduceFunction::kRootSumSquare:
      return 4;  // the root of each result; sums run at one per cycle
  }
  return 4;
}

std::int64_t local_response_cycles(std::int64_t size) {
  constexpr std::int64_t kProducts = 4;  // square, alpha, beta, the value itself
  const std::int64_t entries =
      unary_function_cycles(UnaryFunction::kLog) + unary_function_cycles(UnaryFunction::kExp);
  return std::max({size, kProducts, entries});
}

std::int64_t correlation_cycles() {
  return unary_function_cycles(UnaryFunction::kSquareRoot) +
         binary_function_cycles(BinaryFunction::kDivide);
}

namespace {

// Channel blocks of planar work: those of which each channel has one lane, and a last one whose
// channels share the lanes.
struct PlanarBlocks {
  std::int64_t blocks = 1;
  Cycles block = 1;    // what one of them takes
  Cycles shared = 0;   // what the last one takes; 0: there is none
  Cycles rotator = 0;  // until the first results of all others are through
};

Cycles rotator_stages(std::int64_t lanes) {
  return static_cast<Cycles>(std::bit_width(static_cast<std::uint64_t>(lanes - 1)));
}

// What the lanes take for a block, each for `lanes` of those of a channel.
Cycles planar_block_cycles(const PlanarEngineConfig& config, const PlanarWork& work,
                           std::int64_t lanes) {
  const std::int64_t taps = config.filter_taps;
  const Cycles of_input = std::max(work.input_cycles, ceil_div(work.window_columns, taps));
  const Cycles of_output =
      std::max({work.output_cycles, ceil_div(work.window_rows, taps),
                work.median_bits * ceil_div(work.window_columns * work.window_rows, taps * taps)});
  const Cycles input = ceil_div(work.input_elements, config.elements_per_lane) * of_input;
  const Cycles output =
      ceil_div(ceil_div(work.output_elements, lanes), config.elements_per_lane) * of_output;
  // The filters, the line buffer and the post-processor are pipelined: the slowest sets the pace.
  return std::max<Cycles>({1, input, output}) + work.accumulators * kAccumulatorCycles;
}

PlanarBlocks planar_blocks(const PlanarEngineConfig& config, const PlanarWork& work) {
  const std::int64_t first = work.channel_first % config.lanes;
  const Cycles stages = rotator_stages(config.lanes);
  PlanarBlocks blocks{
      .blocks = ceil_div(first + work.channels, config.lanes),
      .block = planar_block_cycles(config, work, 1),
      .rotator = (int{first != 0} + int{work.input_first % config.lanes != 0}) * stages};
  const std::int64_t alone = first == 0 ? work.channels % config.lanes : work.channels;
  if (alone == 0 || (first != 0 && blocks.blocks > 1)) return blocks;
  const std::int64_t lanes = std::min<std::int64_t>(config.lanes / alone, work.taps);
  if (lanes < 2) return blocks;
  const Cycles shared = planar_block_cycles(config, work, lanes) + 2 * stages + work.taps;
  if (shared >= blocks.block + blocks.rotator) return blocks;
  --blocks.blocks;
  blocks.shared = shared;
  if (blocks.blocks == 0) blocks.rotator = 0;  // counted
  return blocks;
}

// Of one engine of those that share the blocks, or their elements.
Cycles planar_share_cycles(const PlanarBlocks& blocks, StepSharing sharing,
                           const EngineShare& share) {
  Cycles cycles = 0;
  if (sharing == StepSharing::kUnicast) {
    cycles = blocks.blocks * share.of(blocks.block) + share.of(blocks.shared);
  } else {
    cycles = share.of(blocks.blocks) * blocks.block;
    if (blocks.blocks % share.count == share.index) cycles += blocks.shared;
  }
  return cycles == 0 ? 0 : cycles + blocks.rotator;
}

}  // namespace

Cycles planar_step_cycles(const PlanarEngineConfig& config, const PlanarWork& work,
                          StepSharing sharing, const EngineShare& share) {
  return core_cycles(config, planar_share_cycles(planar_blocks(config, work), sharing, share));
}

StepSharing planar_sharing(const PlanarEngineConfig& config, const PlanarWork& work,
                           std::int64_t engines) {
  if (engines == 1) return StepSharing::kBroadcast;
  const PlanarBlocks blocks = planar_blocks(config, work);
  const EngineShare longest{.index = 0, .count = engines};
  return planar_share_cycles(blocks, StepSharing::kUnicast, longest) <
                 planar_share_cycles(blocks, StepSharing::kBroadcast, longest)
             ? StepSharing::kUnicast
             : StepSharing::kBroadcast;
}

Cycles planar_step_cycles(const PlanarEngineConfig& config, const PlanarWork& work) {
  return planar_step_cycles(config, work, planar_sharing(config, work, config.count),
                            {.index = 0, .count = config.count});
}

Cycles planar_transpose_cycles(const PlanarEngineConfig& config, const PlanarTranspose& work,
                               const EngineShare& share) {
  // Every channel tile takes all columns in, every column tile gives all channels out.
  const Cycles in = ceil_div(work.channels, config.lanes) * work.columns;
  const Cycles out = ceil_div(work.columns, config.window_rows_max) * work.channels;
  return core_cycles(config, share.of(work.rows * (in + out)));
}

Cycles planar_transpose_cycles(const PlanarEngineConfig& config, const PlanarTranspose& work) {
  return planar_transpose_cycles(config, work, {.index = 0, .count = config.count});
}

Cycles kernel_extraction_cycles(const NeuralEngineConfig& config, std::int64_t elements) {
  return ceil_div(elements, config.rows);
}

std::int64_t dram_bursts(std::int64_t burst_bytes, const DramRuns& runs) {
  std::int64_t bursts = 0;
  std::int64_t previous = -1;
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    const std::int64_t begin = runs.address + run * runs.pitch;
    const std::int64_t first = begin / burst_bytes;
    const std::int64_t last = (begin + runs.run_bytes - 1) / burst_bytes;
    bursts += last - first + 1 - (first == previous ? 1 : 0);
    previous = last;
  }
  return bursts;
}

}  // namespace tessera
