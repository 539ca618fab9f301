#include "compile/sum_parts.h"

#include <algorithm>
#include <numeric>

#include "arch/cost.h"
#include "arch/dram_config.h"
#include "arith/microscaling.h"
#include "isa/psum.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

// Channels that share an exponent, or 0 where a sum has no parts.
std::int64_t channels_of_vector(const ProductConfig& product, Format moving) {
  const KernelImageShape& image = product.image;
  const bool across_taps = image.cut == BlockCut::kIm2col && image.taps > 1;
  switch (product.matrix.kind) {
    case MatrixKind::kInteger:
      return format_bytes(image.format) == 1 && format_bytes(moving) == 1 ? 1 : 0;
    case MatrixKind::kFloat:  // rounded term by term, in the order of the sum
      return image.taps == 1 ? 1 : 0;
    case MatrixKind::kBlockFloat:
      return across_taps ? 0 : product.matrix.native_dimension;
    case MatrixKind::kMicroscaling:
      break;
  }
  return across_taps ? 0 : arith::kMicroBlock;
}

// A task of `slice` that makes `columns` results of each of its rows.
isa::NeuralTask product_task(const ProductConfig& product, const SliceShape& slice,
                             std::int64_t columns) {
  isa::NeuralTask task;
  task.product = product;
  KernelImageShape& image = task.product.image;
  task.psum.keeps = slice.channels < image.channels;
  image.groups = 1;
  image.channels = slice.channels;
  image.output_channels = slice.outputs;
  image.columns = slice.columns;
  task.moving.format = product.moving_format;
  task.output.columns = static_cast<std::uint32_t>(columns);
  return task;
}

// Results of an image that are made at a time.
struct ResultsAtATime {
  std::int64_t rows = 1, columns = 1;
};

ResultsAtATime results_at_a_time(const ProductExtents& extents, const SliceShape& slice,
                                 bool in_parts, const ChipConfig& chip) {
  const std::int64_t bytes = chip.state_buffer.bytes_per_partition;
  ResultsAtATime piece{extents.rows, extents.columns};
  if (extents.buffer_bytes > bytes) {  // it is cut by rows, in halves that take turns
    piece.rows = ceil_div(extents.rows, ceil_div(extents.buffer_bytes, bytes / 2));
  }
  if (!in_parts) return piece;
  const std::int64_t pixels = std::max<std::int64_t>(
      1, isa::psum_entries(chip) / psum_entries_of_pixel(slice.outputs, chip));
  piece.columns = std::min(piece.columns, pixels);
  piece.rows = std::clamp<std::int64_t>(pixels / piece.columns, 1, piece.rows);
  return piece;
}

}  // namespace

std::int64_t part_channels(const ProductConfig& product, Format moving, const ChipConfig& chip) {
  const bool one_task = product.image.channel_wise || product.local_response.enabled() ||
                        product.correlate || chip.neural.dataflow != Dataflow::kWeightStationary;
  const std::int64_t vector = one_task ? 0 : channels_of_vector(product, moving);
  if (vector == 0) return 0;
  return std::lcm(std::lcm(vector, std::int64_t{chip.neural.rows}),
                  std::int64_t{chip.state_buffer.partitions});
}

std::int64_t psum_entries_of_pixel(std::int64_t outputs, const ChipConfig& chip) {
  return ceil_div(ceil_div(outputs, chip.neural.columns), chip.neural.count);
}

Cycles sliced_cycles(const ProductConfig& product, const ProductExtents& extents,
                     const SliceShape& slice, const ChipConfig& chip) {
  const KernelImageShape& whole = product.image;
  const bool in_parts = slice.channels < whole.channels;
  const ResultsAtATime piece = results_at_a_time(extents, slice, in_parts, chip);
  const isa::NeuralTask task = product_task(product, slice, piece.columns);
  const ProductWork work = isa::product_work(task, chip);
  const StepSharing sharing =
      in_parts ? StepSharing::kBroadcast : neural_sharing(chip.neural, work, piece.rows);
  const Cycles array = neural_step_cycles(chip.neural, work, {.rows = piece.rows}, sharing);
  const std::int64_t bytes = task.product.image.bytes_per_partition();
  const Cycles load = dram_costs(chip).cycles(bytes * whole.rows);
  const bool beside = bytes <= chip.neural.kernel_bytes_per_partition / 2;
  const std::int64_t slices = whole.groups * ceil_div(whole.output_channels, slice.outputs) *
                              ceil_div(whole.channels, slice.channels);
  const std::int64_t pieces = extents.images * ceil_div(extents.rows, piece.rows) *
                              ceil_div(extents.columns, piece.columns);
  return pieces * slices * (beside ? std::max(array, load) : array + load);
}

}  // namespace tessera::compile
