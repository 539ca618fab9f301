#include "arch/cost.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "arch/array_fold.h"

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
};

// `repeat` chains over `pixels` moving columns cut into PSUM banks: passes that are alike,
// `earlier` of another kind before them.
struct Band {
  std::int64_t repeat = 1;
  ChainPasses earlier{}, passes{.count = 1};
  std::int64_t pixels = 1;
  Cycles load = 1;  // of the next weights, channel-wise
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
        load_(work.channel_wise ? band.load : config.rows),
        bank_gap_(work.channel_wise ? 1 : ceil_div(config.columns, config.psum_banks)) {}

  // All passes of a chain but the last.
  Cycles but_last(std::int64_t n) const {
    return band_.earlier.count * pass(n, band_.earlier.pace) +
           (band_.passes.count - 1) * pass(n, band_.passes.pace);
  }
  // The last pass of a chain, if the next chain hides `hidden` cycles of its drain.
  Cycles last_pass(std::int64_t n, Cycles hidden) const {
    const Cycles last = pass(n, band_.passes.pace);
    if (serial_) return last + (work_.post_cycles - 1) * n;
    return std::max<Cycles>({last, bank_gap_, drain(n) - hidden});
  }
  Cycles drain(std::int64_t n) const {
    return (work_.post_cycles - 1) * n + std::max(n, bank_gap_);
  }
  // The last pass of a task, whose skew is part of its drain.
  Cycles last_stream(std::int64_t n) const {
    const Cycles cycles = stream(n, band_.passes.pace).cycles;
    const Cycles post = serial_ ? cycles + (work_.post_cycles - 1) * n : n * work_.post_cycles;
    return std::max(cycles, post);
  }
  std::int64_t stall_thousandths(std::int64_t n) const {
    return (band_.earlier.count + band_.passes.count) *
           (config_.tile_stall_thousandths +
            stream(n, 1).commands * config_.command_stall_thousandths);
  }

 private:
  Stream stream(std::int64_t n, std::int64_t pace) const {
    return stream_of(config_, work_.columns, pace, n);
  }
  Cycles pass(std::int64_t n, std::int64_t pace) const {
    const Cycles cycles = stream(n, pace).cycles;
    return serial_ ? cycles + last_mac() + load_ : std::max<Cycles>(cycles, load_);
  }
  // From the last moving column in to the last multiply-accumulate.
  Cycles last_mac() const {
    return work_.channel_wise ? config_.rows - 1 : config_.rows + config_.columns - 2;
  }

  const NeuralEngineConfig& config_;
  const ProductWork& work_;
  const Band& band_;
  const bool serial_;
  const std::int64_t load_, bank_gap_;
};

// The columns are cut in equal parts, as few as the banks allow.
void add_chains(const NeuralEngineConfig& config, const ProductWork& work, const Band& band,
                Chains& chains) {
  const std::int64_t parts =
      std::max<std::int64_t>(1, ceil_div(band.pixels, config.psum_bank_columns));
  const std::int64_t most = ceil_div(band.pixels, parts);
  const std::int64_t shorter = most * parts - band.pixels;  // parts with a column less
  const std::int64_t last = shorter != 0 ? most - 1 : most;
  const PassCost cost(config, work, band);
  const Cycles hidden = config.psum_banks > 1 ? cost.but_last(last) : 0;
  const auto add = [&](std::int64_t n, std::int64_t times) {
    chains.cycles += times * (cost.but_last(n) + cost.last_pass(n, hidden));
    chains.stall_thousandths += times * cost.stall_thousandths(n);
  };
  add(most, band.repeat * (parts - shorter));
  if (shorter != 0) add(last, band.repeat * shorter);
  chains.last_pass = cost.last_pass(last, 0);
  chains.last_stream = cost.last_stream(last);
  chains.last_drain = cost.drain(last);
  // No chain follows that hides it.
  chains.cycles += chains.last_pass - cost.last_pass(last, hidden);
}

Chains product_chains(const NeuralEngineConfig& config, const ProductWork& work,
                      const StepRows& step, NeuralSharing sharing) {
  Chains chains;
  const bool broadcast = sharing == NeuralSharing::kBroadcast;
  const std::int64_t engines = config.count;
  std::int64_t full = work.output_channels / config.columns;
  std::int64_t rest = work.output_channels % config.columns;
  if (broadcast) {
    // The rest only costs if it is not beside full blocks of the last round.
    if (full % engines != 0) rest = 0;
    full = ceil_div(full, engines);
  }
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
    const auto fold_of = [&](std::int64_t output_channels) {
      return array_fold(config, work, {step.rows, output_channels}, taps);
    };
    const auto add = [&](std::int64_t blocks, const ArrayFold& fold) {
      // Products with phases do not fold.
      const std::int64_t columns =
          fold.tile_h * fold.tile_w == 1
              ? pixels
              : ceil_div(step.rows, fold.tile_h) * ceil_div(work.columns, fold.tile_w);
      Band band{.repeat = ceil_div(work.groups, fold.groups) * blocks,
                .earlier = fold.full,
                .passes = fold.rest,
                .pixels = broadcast ? columns : ceil_div(columns, engines)};
      if (band.passes.count == 0) std::swap(band.earlier, band.passes);
      // Pixels that no tap reaches still pass once, for the bias and the post-processor.
      if (band.passes.count == 0) band.passes.count = 1;
      add_chains(config, work, band, chains);
    };
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

std::int64_t channels_of(const ProductWork& work) { return work.groups * work.output_channels; }

Chains pixel_band_chains(const NeuralEngineConfig& config, const ProductWork& work,
                         const StepRows& step, NeuralSharing sharing, const PixelBand& band) {
  Chains chains;
  std::int64_t blocks = ceil_div(channels_of(work), band.channels);
  std::int64_t columns = step.rows * ceil_div(work.columns, band.outputs);
  if (sharing == NeuralSharing::kBroadcast) {
    blocks = ceil_div(blocks, config.count);
  } else {
    columns = ceil_div(columns, config.count);
  }
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
                           const StepRows& step, NeuralSharing sharing) {
  if (const auto band = pixel_band(config, work)) {
    return pixel_band_chains(config, work, step, sharing, *band);
  }
  Chains chains;
  const std::int64_t width = std::min(config.rows, config.columns);
  const std::int64_t channels = channels_of(work);
  std::int64_t full = channels / width;
  const std::int64_t rest = channels % width;
  const bool broadcast = sharing == NeuralSharing::kBroadcast;
  // In broadcast the rest only costs if it is not beside full blocks of the last round.
  const bool rest_alone = rest != 0 && (!broadcast || full % config.count == 0);
  if (broadcast) full = ceil_div(full, config.count);
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
    const std::int64_t share = broadcast ? pixels : ceil_div(pixels, config.count);
    const ChainPasses passes{.count = std::max<std::int64_t>(1, taps)};
    if (full != 0) {
      add_chains(config, work, {.repeat = full, .passes = passes, .pixels = share}, chains);
    }
    if (rest_alone) {
      const std::int64_t fold = std::min(work.port_elements, width / rest);
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
                        const StepRows& step) {
  Chains chains;
  const std::int64_t blocks =
      step.rows *
      ceil_div(passes_along(work.output_channels, work.partitions, config.columns), config.count);
  const std::int64_t full = work.channels / config.rows;
  const std::int64_t rest = work.channels % config.rows;
  if (full != 0) add_chains(config, work, {.repeat = blocks * full, .pixels = config.rows}, chains);
  if (rest != 0) add_chains(config, work, {.repeat = blocks, .pixels = rest}, chains);
  return chains;
}

// Output-stationary: `repeat` sets of `folds` folds of R x C sums, `depth` values streamed for
// each.
struct FoldBand {
  std::int64_t repeat = 1, folds = 1, depth = 1, pace = 1;
};

void add_folds(const NeuralEngineConfig& config, const ProductWork& work, const FoldBand& band,
               Chains& chains) {
  const Cycles stream = band.depth * band.pace;
  const Cycles post = (work.post_cycles - 1) * config.rows;
  const Cycles fold = config.folds == Folds::kSerial
                          ? stream + config.rows + config.columns - 2 + post
                          : std::max<Cycles>(stream, config.rows * work.post_cycles);
  chains.cycles += band.repeat * band.folds * fold;
  chains.stall_thousandths +=
      band.repeat * band.folds * (config.tile_stall_thousandths + config.command_stall_thousandths);
  chains.last_pass = fold;
  chains.last_stream = stream + post;
}

// Rows take pixels, columns output channels. A channel-wise product has one column for each
// channel.
Chains output_stationary_folds(const NeuralEngineConfig& config, const ProductWork& work,
                               const StepRows& step, NeuralSharing sharing) {
  Chains chains;
  if (work.transpose) {
    const std::int64_t folds = ceil_div(ceil_div(work.output_channels, config.rows), config.count);
    const std::int64_t full = work.channels / config.columns;
    const std::int64_t rest = work.channels % config.columns;
    const FoldBand band{.repeat = step.rows * folds, .folds = full, .depth = config.columns};
    if (full != 0) add_folds(config, work, band, chains);
    if (rest != 0) add_folds(config, work, {.repeat = band.repeat, .depth = rest}, chains);
    return chains;
  }
  const bool broadcast = sharing == NeuralSharing::kBroadcast;
  std::int64_t blocks = work.channel_wise ? work.groups * work.output_channels
                                          : ceil_div(work.output_channels, config.columns);
  if (broadcast) blocks = ceil_div(blocks, config.count);
  const std::int64_t channels = work.channel_wise ? 1 : work.channels;
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) {
    const std::int64_t share = broadcast ? pixels : ceil_div(pixels, config.count);
    // Row r is r values behind row 0: with few channels, rows read one partition for several taps.
    const std::int64_t at_once =
        std::min(std::max<std::int64_t>(1, taps), ceil_div(config.rows, channels));
    add_folds(config, work,
              {.repeat = work.channel_wise ? blocks : work.groups * blocks,
               .folds = ceil_div(share, config.rows),
               .depth = std::max<std::int64_t>(1, taps * channels),
               .pace = ceil_div(at_once, work.port_elements)},
              chains);
  });
  return chains;
}

Chains chains_of(const NeuralEngineConfig& config, const ProductWork& work, const StepRows& step,
                 NeuralSharing sharing) {
  if (config.dataflow == Dataflow::kOutputStationary) {
    return output_stationary_folds(config, work, step, sharing);
  }
  if (work.transpose) return transpose_chains(config, work, step);
  if (work.channel_wise) return channel_wise_chains(config, work, step, sharing);
  return product_chains(config, work, step, sharing);
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

Cycles neural_step_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, NeuralSharing sharing) {
  const Chains chains = chains_of(config, work, step, sharing);
  const Cycles cycles = chains.cycles + ceil_div(chains.stall_thousandths, 1000);
  return core_cycles(config,
                     step.last_of_task ? cycles - chains.last_pass + chains.last_stream : cycles);
}

LastPass neural_last_pass(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, NeuralSharing sharing) {
  const Chains chains = chains_of(config, work, step, sharing);
  return {chains.last_stream, chains.last_drain};
}

NeuralSharing neural_sharing(const NeuralEngineConfig& config, const ProductWork& work,
                             std::int64_t rows) {
  if (config.count == 1 || work.transpose) return NeuralSharing::kBroadcast;
  const StepRows step{0, rows, false};
  const Cycles broadcast = neural_step_cycles(config, work, step, NeuralSharing::kBroadcast);
  const Cycles unicast = neural_step_cycles(config, work, step, NeuralSharing::kUnicast);
  return unicast < broadcast ? NeuralSharing::kUnicast : NeuralSharing::kBroadcast;
}

Cycles neural_first_load_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  if (config.dataflow == Dataflow::kOutputStationary) return 0;
  if (!work.channel_wise) return core_cycles(config, config.rows);
  return core_cycles(config, pixel_band(config, work) ? work.kernel_w : 1);
}

Cycles neural_result_cycles(const NeuralEngineConfig& config) {
  return core_cycles(config, undivided_result_cycles(config));
}

Cycles micro_tree_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  if (!work.micro_blocks || work.channel_wise || work.transpose || sums_stay) return 0;
  constexpr std::int64_t kBlock = 32;
  const auto sums = static_cast<std::uint64_t>(ceil_div(config.rows, kBlock));
  return std::bit_width(sums - 1);
}

Cycles neural_drain_cycles(const NeuralEngineConfig& config, const ProductWork& work) {
  const bool sums_stay = config.dataflow == Dataflow::kOutputStationary;
  // On the diagonal every channel makes R - 1 hops in all: r to the right, R - 1 - r down.
  const bool diagonal = work.channel_wise && !sums_stay && !pixel_band(config, work);
  const Cycles skew = diagonal ? config.rows - 1 : config.rows + config.columns - 2;
  return core_cycles(config,
                     skew + micro_tree_cycles(config, work) + undivided_result_cycles(config));
}

std::int64_t neural_step_macs(const ProductWork& work, const StepRows& step) {
  if (work.transpose) return 0;
  std::int64_t sum = 0;
  for_each_phase(work, step, [&](std::int64_t pixels, std::int64_t taps) { sum += pixels * taps; });
  return sum * work.groups * work.output_channels * (work.channel_wise ? 1 : work.channels);
}

Cycles neural_task_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const TaskBands& bands) {
  const NeuralSharing sharing = neural_sharing(config, work, bands.rows_per_step);
  Cycles image = 0;
  Cycles last_saving = 0;
  for (std::int64_t row = 0; row < bands.rows; row += bands.rows_per_step) {
    StepRows step{row, std::min(bands.rows_per_step, bands.rows - row), false};
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

Cycles planar_step_cycles(const PlanarEngineConfig& config, const PlanarWork& work) {
  const std::int64_t blocks = ceil_div(work.channels, config.lanes);
  const Cycles input = ceil_div(work.input_elements, config.elements_per_lane) * work.input_cycles;
  const Cycles output =
      ceil_div(work.output_elements, config.elements_per_lane) * work.output_cycles;
  // The filters, the line buffer and the post-processor are pipelined: the slowest sets the pace.
  const Cycles block =
      std::max<Cycles>({1, input, output}) + work.accumulators * kAccumulatorCycles;
  // Several engines share channel blocks, or the elements of each.
  const Cycles cycles =
      std::min(ceil_div(blocks, config.count) * block, blocks * ceil_div(block, config.count));
  return core_cycles(config, cycles);
}

Cycles planar_transpose_cycles(const PlanarEngineConfig& config, const PlanarTranspose& work) {
  // Every channel tile takes all columns in, every column tile gives all channels out.
  const Cycles in = ceil_div(work.channels, config.lanes) * work.columns;
  const Cycles out = ceil_div(work.columns, config.window_rows_max) * work.channels;
  return core_cycles(config, ceil_div(work.rows * (in + out), config.count));
}

Cycles kernel_extraction_cycles(const NeuralEngineConfig& config, std::int64_t elements) {
  return ceil_div(elements, config.rows);
}

std::int64_t dram_bursts(const DramConfig& config, const DramRuns& runs) {
  std::int64_t bursts = 0;
  std::int64_t previous = -1;
  for (std::int64_t run = 0; run < runs.runs; ++run) {
    const std::int64_t begin = runs.address + run * runs.pitch;
    const std::int64_t first = begin / config.burst_bytes;
    const std::int64_t last = (begin + runs.run_bytes - 1) / config.burst_bytes;
    bursts += last - first + 1 - (first == previous ? 1 : 0);
    previous = last;
  }
  return bursts;
}

Cycles dma_step_cycles(const DramConfig& config, const DramRuns& runs) {
  return config.row_miss_cycles + config.latency_cycles +
         ceil_div(dram_bursts(config, runs) * config.burst_bytes, config.bytes_per_cycle);
}

}  // namespace tessera
