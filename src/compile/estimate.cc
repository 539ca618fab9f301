#include "compile/estimate.h"

#include <algorithm>
#include <array>
#include <type_traits>

#include "isa/accesses.h"

namespace tessera::compile {
namespace {

using namespace isa;  // descriptors

Cycles neural_cycles(const NeuralTask& task, const Bands& bands, const ChipConfig& chip) {
  return neural_task_cycles(chip.neural, product_work(task, chip),
                            {bands.images, bands.rows, bands.rows_per_step});
}

template <typename Task>
Cycles planar_cycles(const Task& task, const Bands& bands, const ChipConfig& chip) {
  Cycles cycles = chip.planar.task_start_cycles;
  for (std::int64_t step = 0; step < bands.steps(); ++step) {
    cycles += planar_rows_cycles(task, bands.range(step), chip);
  }
  return cycles;
}

Cycles dram_cycles(std::int64_t bytes, const ChipConfig& chip) {
  return chip.dma.task_start_cycles + chip.dram.latency_cycles +
         ceil_div(bytes, chip.dram.bytes_per_cycle);
}

}  // namespace

ProductWork product_work(const NeuralTask& task, const ChipConfig& chip) {
  const ProductConfig& p = task.product;
  ProductWork work;
  work.channel_wise = p.image.channel_wise;
  work.micro_blocks = p.matrix.kind == MatrixKind::kMicroscaling;
  work.transpose = task.transpose;
  work.cut = p.image.cut;
  work.groups = p.image.groups;
  work.channels = task.transpose ? std::int64_t{task.output.columns} : p.image.channels;
  work.partitions = chip.state_buffer.partitions;
  work.output_channels = task.transpose ? task.moving.columns : p.image.output_channels;
  work.kernel_h = p.kernel_h;
  work.kernel_w = p.kernel_w;
  work.stride_h = p.stride_h;
  work.stride_w = p.stride_w;
  work.pad_top = p.pad_top;
  work.pad_left = p.pad_left;
  work.dilation_h = p.dilation_h;
  work.dilation_w = p.dilation_w;
  work.input_dilation_h = p.input_dilation_h;
  work.input_dilation_w = p.input_dilation_w;
  work.columns = task.output.columns;
  work.port_elements = chip.state_buffer.port_elements;
  if (!task.transpose) work.post_cycles = unary_function_cycles(p.activation.function);
  return work;
}

Cycles planar_rows_cycles(const NeuralTask& task, RowRange rows, const ChipConfig& chip) {
  const KernelImageShape& image = task.product.image;
  const RowRange read = product_rows_read(task.product, task.moving.rows, rows);
  PlanarWork work;
  work.channels = image.groups;
  work.input_elements = std::max<std::int64_t>(0, read.last - read.first) * task.moving.columns;
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.output_cycles =
      std::max(image.taps, unary_function_cycles(task.product.activation.function));
  return planar_step_cycles(chip.planar, work);
}

Cycles planar_rows_cycles(const PlanarTask& task, RowRange rows, const ChipConfig& chip) {
  PlanarWork work;
  work.channels = task.output.channels;
  work.output_elements = (rows.last - rows.first) * task.output.columns;
  work.input_elements = work.output_elements;
  const auto read_elements = [&] {
    const RowRange read = planar_rows_read(task, 0, rows);
    return std::max<std::int64_t>(0, read.last - read.first) * task.inputs[0].columns;
  };
  switch (task.mode) {
    case PlanarMode::kPooling:
      work.input_elements = read_elements();
      break;
    case PlanarMode::kElementwise:
      work.output_cycles = unary_function_cycles(task.elementwise.activation.function);
      if (task.elementwise.binary) {
        work.output_cycles =
            std::max(work.output_cycles, binary_function_cycles(task.elementwise.function));
      }
      break;
    case PlanarMode::kTranspose:
      return planar_transpose_cycles(chip.planar, {.channels = task.output.columns,
                                                   .columns = task.output.channels,
                                                   .rows = rows.last - rows.first});
    case PlanarMode::kReduction:
      work.input_elements = read_elements();
      work.output_cycles = std::max(reduce_function_cycles(task.reduce.function),
                                    unary_function_cycles(task.reduce.activation.function));
      break;
  }
  work.accumulators = work.output_elements * (int{task.continues} + int{task.keeps});
  if (task.keeps) work.output_elements = 0;
  return planar_step_cycles(chip.planar, work);
}

Cycles estimate_task(const TaskDescriptor& task, const ChipConfig& chip) {
  return std::visit(
      [&](const auto& config) -> Cycles {
        using T = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<T, NeuralTask>) {
          return task.engine == EngineKind::kPlanar ? planar_cycles(config, task.bands, chip)
                                                    : neural_cycles(config, task.bands, chip);
        } else if constexpr (std::is_same_v<T, PlanarTask>) {
          return planar_cycles(config, task.bands, chip);
        } else if constexpr (std::is_same_v<T, TransferTask>) {
          const BufferSurface& b = config.buffer;
          return dram_cycles(std::int64_t{task.bands.images} * task.bands.rows * b.columns *
                                 config.channel_count * format_bytes(b.format),
                             chip);
        } else if constexpr (std::is_same_v<T, CopyTask>) {
          std::int64_t bytes = config.element_bytes;
          for (const std::int64_t extent : config.extents) bytes *= extent;
          return dram_cycles(config.fill ? bytes : 2 * bytes, chip);
        } else {
          return dram_cycles(config.stored_bytes(), chip);
        }
      },
      task.config);
}

Cycles estimate_frame(const Frame& frame, const ChipConfig& chip) {
  std::array<Cycles, kEngineKindCount> sums{};
  for (const FrameTask& task : frame.tasks) {
    sums[static_cast<std::size_t>(task.descriptor.engine)] += estimate_task(task.descriptor, chip);
  }
  return *std::max_element(sums.begin(), sums.end());
}

}  // namespace tessera::compile
