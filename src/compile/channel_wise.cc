#include "compile/channel_wise.h"

#include "compile/estimate.h"
#include "isa/task_list.h"

namespace tessera::compile {
namespace {

using isa::EngineKind;

// The lanes work beside the array, which has the products around to do meanwhile.
constexpr Cycles kLanesBeside = 2;

// Each lane has the taps of the channels in its own partition.
bool lanes_can_run(const ChipConfig& chip, const ProductConfig& product) {
  const KernelImageShape& image = product.image;
  const std::int64_t rows = (product.kernel_h - 1) * product.dilation_h + 1;
  const std::int64_t columns = (product.kernel_w - 1) * product.dilation_w + 1;
  return image.channel_wise && image.output_channels == 1 &&
         image.rows == chip.state_buffer.partitions && rows <= chip.planar.window_rows_max &&
         columns <= chip.planar.window_columns_max;
}

// Side by side, as products read and write.
isa::BufferSurface surface_of(const ChipConfig& chip, const KernelSlice& slice,
                              const StorageView& view) {
  const auto extent = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  isa::BufferSurface surface = isa::dense_surface(chip, 0,
                                                  {.channels = extent(view.channels()),
                                                   .rows = extent(view.images() * view.rows()),
                                                   .columns = extent(view.columns()),
                                                   .format = slice.product.image.format});
  surface.images = extent(view.images());
  surface.rows = extent(view.rows());
  return surface;
}

// A task over the whole output; only what an estimate reads.
isa::TaskDescriptor task_of(const ChipConfig& chip, const PlannedLayer& layer,
                            const KernelSlice& slice, EngineKind engine) {
  const auto extent = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  isa::NeuralTask product;
  product.product = slice.product;
  product.moving = surface_of(chip, slice, layer.inputs[0]);
  product.output = surface_of(chip, slice, layer.output);
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
    array += estimate_task(task_of(chip, layer, slice, EngineKind::kNeural), chip);
    lanes += estimate_task(task_of(chip, layer, slice, EngineKind::kPlanar), chip);
  }
  return lanes < kLanesBeside * array;
}

}  // namespace tessera::compile
