#include "card/testing/program_builder.h"

#include "arith/kernels/weights/kernel_image.h"
#include "isa/encoding.h"

namespace tessera::card::testing {

using isa::BufferSurface;
using isa::Dependency;
using isa::DramAddress;
using isa::EngineKind;
using isa::TaskId;

ChipConfig small_chip() {
  ChipConfig chip;
  chip.name = "small";
  chip.clock_hertz = 1'000'000'000;
  chip.neural.rows = 4;
  chip.neural.columns = 4;
  chip.neural.psum_banks = 2;
  chip.neural.psum_bank_columns = 16;
  chip.neural.kernel_bytes_per_partition = 256;
  chip.neural.post_processor_latency_cycles = 3;
  chip.neural.task_start_cycles = 5;
  chip.planar.lanes = 4;
  chip.planar.elements_per_lane = 1;
  chip.planar.latency_cycles = 6;
  chip.planar.task_start_cycles = 7;
  chip.planar.window_rows_max = 8;
  chip.planar.window_columns_max = 8;
  chip.state_buffer.partitions = 4;
  chip.state_buffer.bytes_per_partition = 4096;
  chip.state_buffer.banks = 0;
  chip.dram.bytes = 1 << 20;
  chip.dram.device = DramKind::kFlat;
  chip.dram.flat_megabytes_per_second = 16'000;  // 16 bytes a cycle
  chip.dram.flat_nanoseconds = 20;               // and cycles
  chip.dram.flat_burst_bytes = 16;
  chip.dma.port_bytes = 16;
  chip.dma.request_bytes = 128;
  chip.dma.outstanding_requests = 4;
  chip.dma.task_start_cycles = 8;
  chip.task_manager.task_buffer_entries = 8;
  return chip;
}

BufferSurface dense_surface(const ChipConfig& chip, std::uint32_t offset, Format format,
                            std::uint32_t channels, std::uint32_t rows, std::uint32_t columns) {
  return isa::dense_surface(
      chip, offset, {.channels = channels, .rows = rows, .columns = columns, .format = format});
}

TaskId ProgramBuilder::transfer(EngineKind engine, const BufferSurface& buffer, DramAddress dram,
                                std::uint32_t rows_per_step, std::vector<Dependency> dependencies) {
  isa::TransferTask task;
  const std::int64_t element = format_bytes(buffer.format);
  const std::int64_t row = element * buffer.columns;
  const std::int64_t channel = row * buffer.rows;
  task.dram = {dram, {channel * buffer.channels, channel, row, element}};
  task.buffer = buffer;
  task.channel_count = buffer.channels;
  return add(engine, task, {buffer.images, buffer.rows, rows_per_step}, std::move(dependencies));
}

TaskId ProgramBuilder::load(const BufferSurface& to, DramAddress from, std::uint32_t rows_per_step,
                            std::vector<Dependency> dependencies) {
  return transfer(EngineKind::kLoad, to, from, rows_per_step, std::move(dependencies));
}

TaskId ProgramBuilder::store(const BufferSurface& from, DramAddress to, std::uint32_t rows_per_step,
                             std::vector<Dependency> dependencies) {
  return transfer(EngineKind::kStore, from, to, rows_per_step, std::move(dependencies));
}

TaskId ProgramBuilder::product(const BufferSurface& moving, const BufferSurface& output,
                               std::uint32_t kernel_offset, std::uint32_t rows_per_step,
                               std::vector<Dependency> dependencies) {
  isa::NeuralTask task;
  task.moving = moving;
  task.output = output;
  task.kernel_offset = kernel_offset;
  ProductConfig& product = task.product;
  product.image.channels = moving.channels;
  product.image.output_channels = output.channels;
  product.image.rows = chip().neural.rows;
  product.image.columns = chip().neural.columns;
  product.image.format = Format::kI8;
  product.matrix.kind = MatrixKind::kInteger;
  product.output_format = output.format;
  product.bias_format = Format::kI32;
  return add(EngineKind::kNeural, task, {output.images, output.rows, rows_per_step},
             std::move(dependencies));
}

TaskId ProgramBuilder::unary(const BufferSurface& input, const BufferSurface& output,
                             Activation activation, std::uint32_t rows_per_step,
                             std::vector<Dependency> dependencies) {
  isa::PlanarTask task;
  task.mode = isa::PlanarMode::kElementwise;
  task.elementwise.activation = activation;
  task.inputs[0] = input;
  task.output = output;
  return add(EngineKind::kPlanar, task, {output.images, output.rows, rows_per_step},
             std::move(dependencies));
}

TaskId ProgramBuilder::kernel(std::int64_t channels, std::int64_t output_channels,
                              const std::vector<std::int8_t>& weights,
                              std::uint32_t kernel_offset) {
  KernelImageShape shape;
  shape.channels = channels;
  shape.output_channels = output_channels;
  shape.rows = chip().neural.rows;
  shape.columns = chip().neural.columns;
  shape.format = Format::kI8;
  const std::vector<std::byte> image =
      make_kernel_image(shape, reinterpret_cast<const std::byte*>(weights.data()));
  isa::KernelTask task;
  task.source = {isa::BaseIndex::kWeights, weights_.size()};
  task.bytes_per_partition = static_cast<std::uint32_t>(shape.bytes_per_partition());
  task.dram_pitch = task.bytes_per_partition;
  task.partitions = static_cast<std::uint32_t>(shape.rows);
  task.kernel_offset = kernel_offset;
  weights_.insert(weights_.end(), image.begin(), image.end());
  return add(EngineKind::kKernel, task);
}

isa::Program ProgramBuilder::finish(std::int64_t input_bytes, std::int64_t output_bytes,
                                    std::int64_t workspace_bytes) {
  isa::Program program = TaskList::finish(input_bytes, output_bytes);
  program.weights = weights_;
  program.inputs = {{"input", -1, Format::kU8, {input_bytes}, {isa::BaseIndex::kInput, 0}}};
  program.workspace_bytes = workspace_bytes;
  return program;
}

}  // namespace tessera::card::testing
