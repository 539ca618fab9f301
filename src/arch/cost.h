// What every operation costs, in closed form. The engines charge these figures, the compiler plans
// with them, and the tables below are the only place where a cycle count of an operation is
// written.
//
//   weight-stationary array, one chain of passes a (work unit, output-channel block):
//
//     load w0 | pass 0 ......... | pass 1 ......... | ... | pass m-1 | skew R + C - 1 | post
//     R       | load w1 (hidden) | load w2 (hidden) |     | n        |                | latency
//
// A pass streams n moving columns (pixels) and takes max(n * pace, R): the next tile's weights
// shift in meanwhile. The pace is 1, but for im2col, whose pass takes several taps of a channel
// from one partition: those that are new in a column, min(stride_w, kernel_w) in each kernel row
// that the pass reaches (the input buffer's shifter has the others from the column before), at most
// as many as the pass has taps. The port of a partition delivers `port_elements` a cycle, so pace =
// ceil(new taps / port); the last pass of a sum, which has fewer taps, has a pace of its own. Where that
// is more than 1, the columns of t neighbouring output rows take turns: of their kernel_h + (t - 1) *
// stride_h input rows each new tap comes once, so t columns take max(t, ceil(new taps of t / port)).
//
// The post-processor takes a value in `post_cycles` (a), all C output channels side by side (in 1 where
// a is a table's that two columns share and no more than C / 2 of them are in use), and so
// a bank in a * n. It works on one bank while the array fills the next; no bank is written before
// it is taken, no chain ends before the one before it is taken. So the last pass of a chain takes
//
//     max(n * pace, R, ceil(C / banks), drain - hidden)    drain = (a - 1) * n + max(n, C / banks)
//
// where hidden is what the m - 1 earlier passes of the next chain take (the shortest of the band),
// 0 with a single bank and at the end of a band of chains. The last pass of a task takes
// n * max(pace, a).
//
// Sums that a task keeps in PSUM (isa/psum.h) do not pass the post-processor: no pass waits for it, and
// a step ends with its last sum in PSUM, a cycle behind the array.
//
// With serial folds (neural.folds) a pass loads, streams and drains before the next one loads: it
// takes R + n * pace + R + C - 2, and the post-processor's (a - 1) * n at the end of a chain.
//
// With commands (neural.command_columns = q) a pass is cut at the ends of the image's rows and
// every q columns; each piece takes at least command_cycles_min. What commands and tiles lose on
// average is summed over a step and rounded up.
//
//   output-stationary array (neural.dataflow), one fold a block of R pixels x C output channels:
//
//     fold 0 ......... | fold 1 ......... | ... | skew R + C - 2 | sums leave, R | post
//     depth K * taps   | sums of fold 0 leave behind it          |               | latency
//
// A fold streams its depth and takes max(depth * pace, a * R): a column's sums leave downwards, one
// a cycle, when the last row has its own. Serial folds take depth * pace + R + C - 2 + (a - 1) * R.
// Row r is r values behind row 0, so where there are few channels several rows read one partition:
// pace = ceil(min(taps, ceil(R / channels)) / port_elements). Depthwise work fills one column.
//
// Channel-wise work on stationary weights uses the diagonal: min(R, C) channels at once, a tap a
// cycle and pixel, weights loaded a tap ahead. A block with fewer channels works on up to
// `port_elements` pixels at once, one in each group of free places, all from the port of one
// partition.
//
// Where it takes fewer cycles (and neither folds are serial nor commands cut rows), a kernel row is
// a band beside the diagonal instead: a channel has as many rows as s <= `port_elements`
// neighbouring pixels, and a column for each output pixel that lies wholly within them, o = (s -
// reach) / stride_w + 1. min(R, C) / s channels make o pixels per cycle, in kernel_h passes; sums
// come down in the order of the taps. A pass's weights, kernel_w a row of the array, are loaded a
// pass ahead.
//
//        column  y0 y1 y2         kernel row (a b c), s = 5, o = 3
//     x0         a
//     x1         b  a
//     x2         c  b  a
//     x3            c  b
//     x4               c
//
// A product that leaves rows and columns of the array free takes several groups or pixels side by
// side: a moving column is then several pixels (arch/array_fold.h). A tile with several kernel rows
// takes R cycles for each to load, if they are wider together than the array, and the results of a moving
// column leave `port_elements` pixels a cycle, behind the post-processor: the slower of both counts.
//
// A transposed convolution makes its output phase by phase, each with the taps that reach it, or in tiles
// of whole phases that share what they read, whichever takes less.
//
// Where columns hold the taps of input pixels, the sums of an output meet behind PSUM, in a tree across the
// columns, one level a cycle: results come ceil(log2(C)) cycles later, for every product that may be laid out
// so. A step streams the input rows that the steps before it did not; all steps of a task are laid out alike.
//
// Moving columns that a bank does not hold are cut in equal parts. The first weights of a task come
// down behind the last pass of the task before it, where that is configured by then
// (task_manager.configuration_sets) and they are in kernel memory; so two tasks are as far apart as
// two passes.
//
// Microscaling has a scale for every 32 terms. A column of the array gives a whole sum after each
// 32 of its rows (after the last, where it has fewer), multiplied there by the power of two of its
// block's scales; a tree under the column aligns and adds these ceil(R / 32) sums, one level a
// cycle, into a PSUM that is as wide as the format needs. So passes take what they take in block
// floating point, and a result comes ceil(log2(R / 32)) cycles later. An output-stationary cell
// scales its own sum and takes no longer. Block floating point passes the tree where pixels with
// exponents of their own may lie below each other in a column (arch/array_fold.h).
//
// All of this is in cycles of the engine's clock; the functions give cycles of the core's, rounded
// up (neural.clock_thousandths, planar.clock_thousandths). The start of a task is in core cycles.
#pragma once

#include <cstdint>

#include "arch/chip_config.h"
#include "arch/product_work.h"
#include "arith/format.h"
#include "arith/operation.h"
#include "base/quantity.h"

namespace tessera {

// ---- neural engine ----

// Output rows [row_first, row_first + rows) of an image.
struct StepRows {
  std::int64_t row_first = 0;
  std::int64_t rows = 1;
  bool last_of_task = false;
  // Of the task, which has steps of as many rows but for the last of an image; 0: of the step alone.
  std::int64_t rows_of_step = 0, rows_of_task = 0;
};

// How several engines share a step. Neural broadcast: all get the same moving data, each its own
// output-channel blocks; unicast: each gets its own pixels and all output channels. Planar
// broadcast: each its own channel blocks; unicast: each its own elements of all blocks.
enum class StepSharing : std::uint8_t { kBroadcast, kUnicast };
using NeuralSharing = StepSharing;

// One engine of those that share a step. Blocks (or pixels, elements) go round in turn: engine e of
// n has ceil((blocks - e) / n) of them, the last block, which may be smaller, included. Engines
// behind the last block have nothing to do.
struct EngineShare {
  std::int64_t index = 0, count = 1;
  std::int64_t of(std::int64_t all) const { return all > index ? ceil_div(all - index, count) : 0; }
};

// The cheaper one for steps of `rows` rows on `engines` engines; broadcast if they are equal.
StepSharing neural_sharing(const NeuralEngineConfig& config, const ProductWork& work,
                           std::int64_t rows, std::int64_t engines);
StepSharing neural_sharing(const NeuralEngineConfig& config, const ProductWork& work,
                           std::int64_t rows);  // on all engines of the core
// Cycles the array's input is occupied by a step (weights of the first tile are there) on the
// engine; 0 if it has no share of the step.
Cycles neural_step_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing, const EngineShare& share);
// On all engines of the core: what the one that takes longest takes.
Cycles neural_step_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing);
// Those cycles, and what comes through the ports of the state buffer meanwhile: elements of the moving
// operand that a partition delivers, those that the input buffer keeps from the moving column before
// left out. Not said (0) of channel-wise work and transpositions, whose elements are read once.
struct ArrayStep {
  Cycles cycles = 0;
  std::int64_t moving_elements = 0;
};
ArrayStep array_step(const NeuralEngineConfig& config, const ProductWork& work,
                     const StepRows& step, StepSharing sharing, const EngineShare& share);
// On all engines of the core: the most of any.
ArrayStep array_step(const NeuralEngineConfig& config, const ProductWork& work,
                     const StepRows& step, StepSharing sharing);
// A task's last pass, behind which the first weights of the next task load.
struct LastPass {
  Cycles cycles = 0;
  Cycles spacing = 0;  // at least from its begin to the next task's first moving column
};
// `step` is the last of its task.
LastPass neural_last_pass(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing, const EngineShare& share);
LastPass neural_last_pass(const NeuralEngineConfig& config, const ProductWork& work,
                          const StepRows& step, StepSharing sharing);  // of engine 0 of all
// Until the exponent of a first native vector is known that has more values than the array has rows.
// Exponents of R values each are found where a tensor is written and kept beside it, a word for each
// pixel; the vector's words are read one a cycle, and a tree finds the largest. Those of later vectors
// are read behind the passes of the ones before.
Cycles neural_exponent_cycles(const NeuralEngineConfig& config, const ProductWork& work);
// The first weight load and, beside it, the first exponent; exposed once a task that has no task
// before it to load behind.
Cycles neural_first_load_cycles(const NeuralEngineConfig& config, const ProductWork& work);
// From the last multiply-accumulate to the last result in the state buffer.
Cycles neural_result_cycles(const NeuralEngineConfig& config);
// What the tree under the columns adds to that.
Cycles micro_tree_cycles(const NeuralEngineConfig& config, const ProductWork& work);
// From the last moving column in to the last result in the state buffer.
Cycles neural_drain_cycles(const NeuralEngineConfig& config, const ProductWork& work);
// Multiply-accumulates of a step that contribute (padding counts, gaps of a dilated input do not).
std::int64_t neural_step_macs(const ProductWork& work, const StepRows& step);
// Those of one engine; over all engines they add up to the step's.
std::int64_t neural_step_macs(const NeuralEngineConfig& config, const ProductWork& work,
                              const StepRows& step, StepSharing sharing, const EngineShare& share);

// How an m x n matrix (m channels, n columns) is cut for the identity product: blocks of P x P of
// the state buffer, ((m - 1) / P + 1) * ((n - 1) / P + 1) of them, each cut again to what the array
// of R x C holds. A pass has its part of the block as weights and streams an identity column for
// each of its channels.
struct TransposeBlocks {
  std::int64_t blocks = 1;  // of the state buffer
  std::int64_t passes = 1;  // of the array
};
struct MatrixExtents {
  std::int64_t channels = 1, columns = 1;  // m, n
};
struct BlockExtents {
  std::int64_t partitions = 128;           // P
  std::int64_t rows = 128, columns = 128;  // R, C
};
TransposeBlocks transpose_blocks(const MatrixExtents& matrix, const BlockExtents& block);

// A task alone on an idle core: `images` images of `rows` rows, `rows_per_step` a step.
struct TaskBands {
  std::int64_t images = 1, rows = 1, rows_per_step = 1;
};
Cycles neural_task_cycles(const NeuralEngineConfig& config, const ProductWork& work,
                          const TaskBands& bands);

// ---- planar engine ----

// Cycles a lane needs for one element of a function, each pipelined with all else. The neural
// engine's post-processor needs as many for an activation.
std::int64_t unary_function_cycles(UnaryFunction function);
std::int64_t binary_function_cycles(BinaryFunction function);
std::int64_t reduce_function_cycles(ReduceFunction function);
// Cycles that the post-processor needs for a value of a local response normalisation over `size`
// channels. A lane has an adder, a multiplier and the table: the squares of the channels around come
// from the lanes beside it, one a cycle (those of the neighbouring block wait in PSUM), the four
// products take one each, logarithm and exponential a table entry each. All of it is pipelined.
std::int64_t local_response_cycles(std::int64_t size);
// The same for a normalised cross-correlation: the root and the quotient, one after the other in the
// iterative unit.
std::int64_t correlation_cycles();

// One step of planar work. Elements are counted a channel.
//   pooling       input elements pass the two one-dimensional filters, one per cycle and lane, by way
//                 of the converter in front; results leave through the one behind. A filter has
//                 filter_taps comparators or adders: a window that is wider passes the first again
//                 for each further filter_taps columns, one that is taller the second. A median is found
//                 bit by bit from the top, one a cycle, by counting those elements of the window
//                 that are still as large, filter_taps * filter_taps of them at once
//   element-wise  each output element is read (two sources on two read ports), computed, written
//   gain, bias    as element-wise; what is one for all columns stays in a register of the lane
//   reduction     input elements are added to the line buffer, results leave through the function
//   channel-wise  each output element takes a multiply-add per tap from the line buffer's window
//
// Results that begin in another partition than channel 0's pass a rotator behind the lanes, of a stage a
// doubling of the lanes, which a step fills once; those that reach into another block of lanes take
// the lanes' time for that block too. Channel-wise work whose input begins elsewhere within a block of
// partitions passes one in front of them.
//
// Channel-wise work on a block of at most half as many channels as there are lanes is shared by
// them: each channel has `lanes / channels` lanes, at most one for each of its taps, that take parts
// of its outputs.
//
//   partition of a channel ─► rotator ─► its lanes, an element to all of them ─► rotator ─► partition
//
// An element is read once and results leave once, elements_per_lane of them a cycle as with one lane,
// so no port is wider. A step fills both rotators, and spreads the taps over the lanes first, one a
// cycle; where that takes longer than it saves, one lane takes the channel.
struct PlanarWork {
  std::int64_t channels = 1;
  std::int64_t channel_first = 0;    // where the results begin
  std::int64_t input_first = 0;      // where the input of channel-wise work begins
  std::int64_t input_elements = 1;   // a channel, halo rows included
  std::int64_t output_elements = 1;  // a channel
  std::int64_t input_cycles = 1;     // a lane and input element
  std::int64_t output_cycles = 1;    // a lane and output element
  std::int64_t accumulators = 0;     // a channel, read or written between parts of a reduction
  std::int64_t window_columns = 1, window_rows = 1;  // of a pooling
  std::int64_t median_bits = 0;                      // of an element, where it is a median
  std::int64_t taps = 0;                             // of channel-wise work; else 0
};
// An accumulator has 256 bits; a lane moves 32 of them in a cycle.
inline constexpr std::int64_t kAccumulatorCycles = 8;
// On all engines of the core, shared in the cheaper way.
Cycles planar_step_cycles(const PlanarEngineConfig& config, const PlanarWork& work);
// On one engine; 0 if it has no share of the step.
Cycles planar_step_cycles(const PlanarEngineConfig& config, const PlanarWork& work,
                          StepSharing sharing, const EngineShare& share);
// The cheaper one on `engines` engines; broadcast if they are equal.
StepSharing planar_sharing(const PlanarEngineConfig& config, const PlanarWork& work,
                           std::int64_t engines);

// `rows` matrices of `channels` x `columns` turned by the converter, in tiles of `lanes` channels
// and window_rows_max columns: a column of the tile goes into the line buffer in a cycle, then a
// row comes out of it in a cycle, whatever elements_per_lane is. The buffer has one port, so tiles
// do not overlap; engines share them.
struct PlanarTranspose {
  std::int64_t channels = 1, columns = 1, rows = 1;
};
Cycles planar_transpose_cycles(const PlanarEngineConfig& config, const PlanarTranspose& work);
// On one engine; in both ways of sharing it takes its part of the columns in and rows out.
Cycles planar_transpose_cycles(const PlanarEngineConfig& config, const PlanarTranspose& work,
                               const EngineShare& share);

// ---- kernel extraction ----

// Expanding `elements` of a compressed kernel on the way into kernel memory: R elements per cycle,
// one for each partition. Palette and zero mask are looked up in the pipeline, whatever their
// values.
Cycles kernel_extraction_cycles(const NeuralEngineConfig& config, std::int64_t elements);

// ---- DMA and the memory channel ----

// `runs` contiguous runs of `run_bytes`, `pitch` bytes apart, beginning at `address`.
struct DramRuns {
  std::int64_t address = 0;
  std::int64_t runs = 1;
  std::int64_t run_bytes = 1;
  std::int64_t pitch = 0;
};
// Bursts the channel moves for them; a burst that the previous run ended in is not moved again.
std::int64_t dram_bursts(std::int64_t burst_bytes, const DramRuns& runs);

}  // namespace tessera
