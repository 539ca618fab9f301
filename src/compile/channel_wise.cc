#include "compile/channel_wise.h"

#include "compile/estimate.h"

namespace tessera::compile {
namespace {

using isa::EngineKind;

// Each lane has the taps of the channels in its own partition.
bool lanes_can_run(const ChipConfig& chip, const ProductConfig& product) {
  const KernelImageShape& image = product.image;
  const std::int64_t rows = (product.kernel_h - 1) * product.dilation_h + 1;
  const std::int64_t columns = (product.kernel_w - 1) * product.dilation_w + 1;
  return image.channel_wise && image.output_channels == 1 && product.input_dilation_h == 1 &&
         product.input_dilation_w == 1 && image.rows == chip.state_buffer.partitions &&
         rows <= chip.planar.window_rows_max && columns <= chip.planar.window_columns_max;
}

// A task over the whole output; only what an estimate reads.
isa::TaskDescriptor task_of(const PlannedLayer& layer, const KernelSlice& slice,
                            EngineKind engine) {
  const auto extent = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  isa::NeuralTask product;
  product.product = slice.product;
  product.moving.images = extent(layer.inputs[0].images());
  product.moving.rows = extent(layer.inputs[0].rows());
  product.moving.columns = extent(layer.inputs[0].columns());
  product.output.columns = extent(layer.output.columns());
  isa::TaskDescriptor task;
  task.engine = engine;
  task.bands = {extent(layer.output.images()), extent(layer.output.rows()),
                extent(layer.output.rows())};
  task.config = std::move(product);
  return task;
}

}  // namespace

bool lanes_are_faster(const ChipConfig& chip, const PlannedLayer& layer) {
  Cycles array = 0;
  Cycles lanes = 0;
  for (const KernelSlice& slice : layer.slices) {
    if (!lanes_can_run(chip, slice.product)) return false;
    array += estimate_task(task_of(layer, slice, EngineKind::kNeural), chip);
    lanes += estimate_task(task_of(layer, slice, EngineKind::kPlanar), chip);
  }
  return lanes < array;
}

}  // namespace tessera::compile
