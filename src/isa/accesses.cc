#include "isa/accesses.h"

#include <algorithm>
#include <type_traits>

#include "base/check.h"
#include "isa/planar_modes.h"
#include "isa/psum.h"
#include "isa/rows_read.h"

namespace tessera::isa {
namespace {

// More strips of a surface than this are taken as the one range around them.
constexpr std::int64_t kStripsMax = std::int64_t{1} << 16;
// Of more columns than this that lie apart a read takes in what is between them.
constexpr std::int64_t kColumnsApartMax = 1024;

void add(MemoryKind memory, bool write, std::int64_t first, std::int64_t last,
         std::vector<Access>& accesses, bool gaps = false) {
  if (last <= first) return;
  if (!accesses.empty()) {
    Access& back = accesses.back();
    if (back.memory == memory && back.write == write && memory != MemoryKind::kDram &&
        back.last == first && back.gaps == gaps) {
      back.last = last;
      return;
    }
  }
  accesses.push_back(
      {.memory = memory, .write = write, .first = first, .last = last, .gaps = gaps});
}

// A strided box of DRAM bytes: extents and byte strides, `run` contiguous bytes at each place.
struct DramBox {
  DramAddress address;
  std::vector<std::int64_t> extents, strides;
  std::int64_t run = 0;
};

// Drops axes of extent 1 and broadcast axes; sorts by stride and merges what is contiguous.
void simplify(DramBox& box) {
  std::vector<std::pair<std::int64_t, std::int64_t>> axes;  // stride, extent
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    const std::int64_t stride = box.strides[i];
    if (box.extents[i] <= 1 || stride == 0) continue;
    if (stride < 0) box.address.offset += static_cast<std::uint64_t>(stride * (box.extents[i] - 1));
    axes.emplace_back(std::abs(stride), box.extents[i]);
  }
  std::sort(axes.begin(), axes.end());
  std::size_t first = 0;
  while (first < axes.size() && axes[first].first <= box.run) {
    box.run = axes[first].first * (axes[first].second - 1) + box.run;
    ++first;
  }
  box.extents.clear();
  box.strides.clear();
  for (std::size_t i = axes.size(); i > first; --i) {
    box.strides.push_back(axes[i - 1].first);
    box.extents.push_back(axes[i - 1].second);
  }
}

void dram_accesses(DramBox box, bool write, std::vector<Access>& accesses,
                   std::int64_t runs_max = kRunsMax) {
  for (const std::int64_t extent : box.extents) {
    if (extent <= 0) return;
  }
  simplify(box);
  std::int64_t runs = 1, span = box.run;
  for (std::size_t i = 0; i < box.extents.size(); ++i) {
    runs *= box.extents[i];
    span += box.strides[i] * (box.extents[i] - 1);
  }
  const auto origin = static_cast<std::int64_t>(box.address.offset);
  const auto push = [&](std::int64_t first, std::int64_t bytes, bool gaps = false) {
    accesses.push_back({.memory = MemoryKind::kDram,
                        .write = write,
                        .base = box.address.base,
                        .first = first,
                        .last = first + bytes,
                        .gaps = gaps});
  };
  if (runs > runs_max) {
    push(origin, span, true);
    return;
  }
  std::vector<std::int64_t> index(box.extents.size(), 0);
  for (std::int64_t run = 0; run < runs; ++run) {
    std::int64_t at = origin;
    for (std::size_t i = 0; i < index.size(); ++i) at += index[i] * box.strides[i];
    push(at, box.run);
    for (std::size_t i = index.size(); i > 0; --i) {
      if (++index[i - 1] < box.extents[i - 1]) break;
      index[i - 1] = 0;
    }
  }
}

void kernel_read(std::int64_t offset, std::int64_t bytes, std::vector<Access>& accesses) {
  add(MemoryKind::kKernelMemory, false, offset, offset + bytes, accesses);
}

void neural_accesses(const NeuralTask& task, std::int64_t partitions, std::int64_t image,
                     RowRange rows, std::vector<Access>& accesses) {
  const ProductConfig& product = task.product;
  const KernelImageShape& shape = product.image;
  if (task.transpose) {
    surface_accesses(task.moving, {task.moving_channel_first, task.output.columns, image, rows},
                     partitions, false, accesses);
    surface_accesses(task.output, {task.output_channel_first, task.moving.columns, image, rows},
                     partitions, true, accesses);
    return;
  }
  const std::int64_t inputs = shape.groups * shape.channels;
  const std::int64_t outputs = shape.groups * shape.output_channels;
  surface_accesses(task.moving,
                   {task.moving_channel_first, inputs, image,
                    product_rows_read(product, task.moving.rows, rows)},
                   partitions, false, accesses);
  if (task.dynamic) {
    surface_accesses(
        task.stationary,
        {task.stationary_channel_first, shape.channels, image, {0, task.stationary.rows}},
        partitions, false, accesses);
  } else {
    kernel_read(task.kernel_offset, shape.bytes_per_partition(), accesses);
  }
  const auto vector_bytes = [&](std::int64_t count, std::int64_t element) {
    return ceil_div(count, shape.rows) * element;
  };
  if (product.has_bias) {
    kernel_read(task.bias_offset, vector_bytes(outputs, format_bytes(product.bias_format)),
                accesses);
  }
  if (product.requantise) {
    kernel_read(task.multiplier_offset, vector_bytes(task.multiplier_count, 4), accesses);
  }
  if (task.zero_point_count > 0) {
    kernel_read(task.zero_point_offset, vector_bytes(task.zero_point_count, 4), accesses);
  }
  if (task.psum.keeps) return;
  surface_accesses(task.output, {task.output_channel_first, outputs, image, rows}, partitions, true,
                   accesses);
}

// The entries of a step, a run for each channel block.
void psum_accesses(const PsumUse& psum, const PsumLayout& layout, std::int64_t image, RowRange rows,
                   std::vector<Access>& accesses) {
  for (const bool write : {false, true}) {
    if (!write && !psum.continues) continue;
    for (std::int64_t block = 0; block < layout.groups * layout.blocks; ++block) {
      const std::int64_t origin = layout.first + block * layout.pixels;
      add(MemoryKind::kPsum, write, origin + layout.pixel(image, rows.first, 0),
          origin + layout.pixel(image, rows.last, 0), accesses);
    }
  }
}

void planar_accesses(const PlanarTask& task, std::int64_t partitions, std::int64_t image,
                     RowRange rows, std::vector<Access>& accesses) {
  for (int i = 0; i < task.input_count; ++i) {
    const BufferSurface& input = task.inputs[i];
    surface_accesses(input, {0, input.channels, image, planar_rows_read(task, i, rows)}, partitions,
                     false, accesses);
  }
  const SurfaceBox results{0, task.output.channels, image, rows};
  if (task.in_parts()) {
    const BufferSurface accumulators = accumulator_surface(task);
    if (task.continues) surface_accesses(accumulators, results, partitions, false, accesses);
    if (task.keeps) surface_accesses(accumulators, results, partitions, true, accesses);
  }
  if (task.keeps) return;
  surface_accesses(task.output, {task.output_channel_first, task.output.channels, image, rows},
                   partitions, true, accesses);
}

DramBox transfer_box(const TransferTask& task, std::int64_t image, RowRange rows) {
  const std::int64_t element = format_bytes(task.buffer.format);
  DramBox box{.address = task.dram.address, .extents = {}, .strides = {}, .run = element};
  box.address.offset +=
      static_cast<std::uint64_t>(image * task.dram.strides[0] + rows.first * task.dram.strides[2]);
  box.extents = {task.channel_count, rows.last - rows.first, task.buffer.columns};
  box.strides = {task.dram.strides[1], task.dram.strides[2], task.dram.strides[3]};
  return box;
}

void transfer_accesses(const TransferTask& task, bool load, std::int64_t partitions,
                       std::int64_t image, RowRange rows, std::vector<Access>& accesses,
                       std::int64_t runs_max = kRunsMax) {
  dram_accesses(transfer_box(task, image, rows), !load, accesses, runs_max);
  surface_accesses(task.buffer, {task.channel_first, task.channel_count, image, rows}, partitions,
                   load, accesses);
}

void copy_accesses(const CopyTask& task, RowRange rows, std::vector<Access>& accesses,
                   std::int64_t runs_max = kRunsMax) {
  std::vector<std::int64_t> extents = task.extents;
  if (extents.empty()) return;
  extents[0] = rows.last - rows.first;
  const auto side = [&](const DramAddress& address, const std::vector<std::int64_t>& strides,
                        bool write) {
    DramBox box{
        .address = address, .extents = extents, .strides = strides, .run = task.element_bytes};
    box.address.offset += static_cast<std::uint64_t>(rows.first * strides[0]);
    dram_accesses(box, write, accesses, runs_max);
  };
  if (!task.fill) side(task.source, task.source_strides, false);
  side(task.destination, task.destination_strides, true);
}

void message_accesses(const MessageTask& task, bool in, std::int64_t partitions, std::int64_t image,
                      RowRange rows, std::vector<Access>& accesses) {
  if (task.kind == MessageKind::kVector) {
    return transfer_accesses(task.transfer, in, partitions, image, rows, accesses);
  }
  dram_accesses({.address = task.transfer.dram.address,
                 .extents = {},
                 .strides = {},
                 .run = task.matrix_bytes()},
                false, accesses);
  add(MemoryKind::kKernelMemory, true, task.kernel_offset,
      task.kernel_offset + task.image.bytes_per_partition(), accesses);
}

// The bytes of one column that the ring's rows span where the next column begins behind them: rows
// lie within columns then, and what lies between two columns may be another surface's. 0 elsewhere.
std::int64_t span_of_apart_column(const BufferSurface& surface) {
  const std::int64_t span =
      std::int64_t{surface.ring_rows - 1} * surface.row_pitch + format_bytes(surface.format);
  return surface.columns > 1 && surface.column_pitch > span ? span : 0;
}

}  // namespace

void surface_accesses(const BufferSurface& surface, const SurfaceBox& box, std::int64_t partitions,
                      bool write, std::vector<Access>& accesses) {
  RowRange rows = box.rows;
  if (rows.last <= rows.first || box.channel_count <= 0 || surface.columns == 0) return;
  const std::int64_t image = surface.broadcast_images ? 0 : box.image;
  if (surface.broadcast_rows) rows = {0, 1};
  const std::int64_t ring = surface.ring_rows;
  const std::int64_t origin = image * surface.rows;
  const std::int64_t strip =
      std::int64_t{surface.columns - 1} * surface.column_pitch + format_bytes(surface.format);
  // A whole turn of the ring touches all its rows.
  if (rows.last - rows.first >= ring) rows = {0, ring};
  const std::int64_t block_first = surface.broadcast_channels ? 0 : box.channel_first / partitions;
  const std::int64_t block_last =
      surface.broadcast_channels ? 0 : (box.channel_first + box.channel_count - 1) / partitions;
  const std::int64_t blocks = block_last - block_first + 1;
  // A read that took in what lies between columns would wait for another surface's bytes, or find
  // that nobody had written them. A write may: it waits for more than it has to, and hides nothing.
  const bool columns_apart =
      !write && span_of_apart_column(surface) > 0 && surface.columns <= kColumnsApartMax;
  const bool gaps = !columns_apart && surface.columns > 1 &&
                    std::int64_t{surface.column_pitch} > format_bytes(surface.format);
  const std::int64_t strips = columns_apart ? std::int64_t{surface.columns}
                              : surface.row_pitch <= strip
                                  ? 1
                                  : std::min<std::int64_t>(rows.last - rows.first, ring);
  if (blocks > kStripsMax / strips) {
    const std::int64_t first = std::int64_t{surface.offset} + block_first * surface.block_pitch;
    add(MemoryKind::kStateBuffer, write, first,
        first + (blocks - 1) * surface.block_pitch + (ring - 1) * surface.row_pitch + strip,
        accesses, true);
    return;
  }
  for (std::int64_t block = block_first; block <= block_last; ++block) {
    const std::int64_t base = std::int64_t{surface.offset} + block * surface.block_pitch;
    std::int64_t row = origin + rows.first;
    const std::int64_t end = origin + rows.last;
    while (row < end) {  // runs of rows that do not wrap around the ring
      const std::int64_t run = std::min(end - row, ring - row % ring);
      const std::int64_t first = base + (row % ring) * surface.row_pitch;
      if (columns_apart) {
        const std::int64_t bytes = (run - 1) * surface.row_pitch + format_bytes(surface.format);
        for (std::int64_t i = 0; i < surface.columns; ++i) {
          const std::int64_t column = first + i * surface.column_pitch;
          add(MemoryKind::kStateBuffer, write, column, column + bytes, accesses);
        }
      } else if (surface.row_pitch <= strip) {
        add(MemoryKind::kStateBuffer, write, first, first + (run - 1) * surface.row_pitch + strip,
            accesses, gaps);
      } else {
        for (std::int64_t i = 0; i < run; ++i) {
          add(MemoryKind::kStateBuffer, write, first + i * surface.row_pitch,
              first + i * surface.row_pitch + strip, accesses, gaps);
        }
      }
      row += run;
    }
  }
}

void step_accesses(const TaskDescriptor& task, const ChipConfig& chip, std::int64_t step,
                   std::vector<Access>& accesses, std::int64_t runs_max) {
  const std::int64_t partitions = chip.state_buffer.partitions;
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  std::visit(
      [&](const auto& config) {
        using T = std::decay_t<decltype(config)>;
        if constexpr (std::is_same_v<T, NeuralTask>) {
          neural_accesses(config, partitions, image, rows, accesses);
          if (config.psum.in_parts()) {
            psum_accesses(config.psum, psum_layout(task, chip), image, rows, accesses);
          }
        } else if constexpr (std::is_same_v<T, PlanarTask>) {
          planar_accesses(config, partitions, image, rows, accesses);
        } else if constexpr (std::is_same_v<T, TransferTask>) {
          transfer_accesses(config, task.engine == EngineKind::kLoad, partitions, image, rows,
                            accesses, runs_max);
        } else if constexpr (std::is_same_v<T, CopyTask>) {
          copy_accesses(config, rows, accesses, runs_max);
        } else if constexpr (std::is_same_v<T, MessageTask>) {
          message_accesses(config, task.engine == EngineKind::kMessageIn, partitions, image, rows,
                           accesses);
        } else {
          const bool compressed = config.stream.compressed();
          dram_accesses({.address = config.source,
                         .extents = {compressed ? 1 : std::int64_t{config.partitions}},
                         .strides = {static_cast<std::int64_t>(config.dram_pitch)},
                         .run = compressed ? config.stored_bytes() : config.bytes_per_partition},
                        false, accesses);
          add(MemoryKind::kKernelMemory, true, config.kernel_offset,
              std::int64_t{config.kernel_offset} + config.bytes_per_partition, accesses);
        }
      },
      task.config);
}

void step_dram_accesses(const TaskDescriptor& task, std::int64_t step, std::int64_t runs_max,
                        std::vector<Access>& accesses) {
  const RowRange rows = task.bands.range(step);
  if (const auto* transfer = std::get_if<TransferTask>(&task.config)) {
    const DramBox box = transfer_box(*transfer, task.bands.image(step), rows);
    dram_accesses(box, task.engine == EngineKind::kStore, accesses, runs_max);
  } else if (const auto* copy = std::get_if<CopyTask>(&task.config)) {
    copy_accesses(*copy, rows, accesses, runs_max);
  }
}

}  // namespace tessera::isa
