#include "isa/work.h"

#include <algorithm>
#include <numeric>

#include "arith/unary_functions.h"
#include "isa/rows_read.h"

namespace tessera::isa {
namespace {

// Taps of a kernel's axis that meet a sample, of `gap` - 1 zeros behind each, at most.
std::int64_t taps_met(std::int64_t kernel, std::int64_t dilation, std::int64_t gap) {
  return ceil_div(kernel, gap / std::gcd(gap, dilation));
}

// Where the kernel goes over the input.
void set_window(const ProductConfig& product, ProductWork& work) {
  work.kernel_h = product.kernel_h;
  work.kernel_w = product.kernel_w;
  work.stride_h = product.stride_h;
  work.stride_w = product.stride_w;
  work.pad_top = product.pad_top;
  work.pad_left = product.pad_left;
  work.dilation_h = product.dilation_h;
  work.dilation_w = product.dilation_w;
  work.input_dilation_h = product.input_dilation_h;
  work.input_dilation_w = product.input_dilation_w;
}

// What counts the multiply-adds.
ProductWork filter_of(const ProductConfig& product, std::int64_t columns) {
  ProductWork work;
  work.channel_wise = true;
  work.groups = product.image.groups;
  set_window(product, work);
  work.columns = columns;
  return work;
}

PlanarStep step_of(const NeuralTask& task, RowRange rows) {
  const ProductConfig& product = task.product;
  PlanarWork work;
  work.channels = product.image.groups;
  work.channel_first = task.output_channel_first;
  work.input_first = task.moving_channel_first;
  work.input_elements =
      elements_read(product_rows_read(product, task.moving.rows, rows), task.moving);
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.taps = taps_met(product.kernel_h, product.dilation_h, product.input_dilation_h) *
              taps_met(product.kernel_w, product.dilation_w, product.input_dilation_w);
  work.output_cycles = std::max(work.taps, unary_function_cycles(product.activation.function));
  return {work, neural_step_macs(filter_of(product, task.output.columns),
                                 {rows.first, rows.last - rows.first, false})};
}

// In the post-processor. An activation that takes table entries shares the table with the rest.
std::int64_t post_cycles(const ProductConfig& product) {
  const std::int64_t activation = unary_function_cycles(product.activation.function);
  if (product.correlate) return correlation_cycles();
  if (!product.local_response.enabled()) return activation;
  return local_response_cycles(product.local_response.size) + (activation > 1 ? activation : 0);
}

bool pairs_share_table(const ProductConfig& product) {
  return unary_row(product.activation.function).kind == UnaryKind::kTranscendental &&
         !product.correlate && !product.local_response.enabled();
}

// That an operand of an integer product goes through the array in; floats go whole.
std::int64_t bytes_of(Format format, const ProductConfig& product) {
  return product.matrix.kind == MatrixKind::kInteger ? format_bytes(format) : 1;
}

}  // namespace

ProductWork product_work(const NeuralTask& task, const ChipConfig& chip) {
  const ProductConfig& product = task.product;
  ProductWork work;
  work.columns = task.output.columns;
  work.port_elements = chip.state_buffer.port_elements;
  work.partitions = chip.state_buffer.partitions;
  if (task.transpose) {  // what a product has besides means nothing
    work.transpose = true;
    work.channels = task.output.columns;
    work.output_channels = task.moving.columns;
    return work;
  }
  work.channel_wise = product.image.channel_wise;
  work.micro_blocks = product.matrix.kind == MatrixKind::kMicroscaling;
  work.cut = product.image.cut;
  if (product.matrix.kind == MatrixKind::kBlockFloat) {
    work.native_dimension = product.matrix.native_dimension;
  }
  work.groups = product.image.groups;
  work.channels = product.image.channels;
  work.output_channels = product.image.output_channels;
  set_window(product, work);
  work.post_cycles = post_cycles(product);
  work.pairs_share_table = pairs_share_table(product);
  work.column_repeats = bytes_of(task.moving.format, product) * (product.correlate ? 2 : 1);
  work.kernel_repeats = bytes_of(product.image.format, product);
  work.across_channels = product.local_response.enabled();
  work.keeps_sums = task.psum.keeps;
  work.sums_in_parts = task.psum.in_parts();
  return work;
}

StepRows step_rows(const TaskDescriptor& task, std::int64_t step) {
  const RowRange rows = task.bands.range(step);
  const Bands& bands = task.bands;
  return {.row_first = rows.first,
          .rows = rows.last - rows.first,
          .last_of_task = step + 1 == task.steps(),
          .rows_of_step = std::min(bands.rows, bands.rows_per_step),
          .rows_of_task = bands.rows};
}

PlanarStep planar_work(const TaskConfig& task, RowRange rows) {
  if (const auto* filter = std::get_if<NeuralTask>(&task)) return step_of(*filter, rows);
  return planar_task_step(std::get<PlanarTask>(task), rows);
}

Cycles planar_cycles(const PlanarEngineConfig& config, const PlanarStep& step) {
  if (const auto* turned = std::get_if<PlanarTranspose>(&step.work)) {
    return planar_transpose_cycles(config, *turned);
  }
  return planar_step_cycles(config, std::get<PlanarWork>(step.work));
}

StepSharing step_sharing(Sharing sharing) {
  return sharing == Sharing::kUnicast ? StepSharing::kUnicast : StepSharing::kBroadcast;
}

Cycles planar_cycles(const PlanarEngineConfig& config, const PlanarStep& step, Sharing sharing,
                     const EngineShare& share) {
  if (const auto* turned = std::get_if<PlanarTranspose>(&step.work)) {
    return planar_transpose_cycles(config, *turned, share);
  }
  const auto& work = std::get<PlanarWork>(step.work);
  const StepSharing chosen = sharing == Sharing::kAutomatic
                                 ? planar_sharing(config, work, share.count)
                                 : step_sharing(sharing);
  return planar_step_cycles(config, work, chosen, share);
}

}  // namespace tessera::isa
