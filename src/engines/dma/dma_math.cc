#include "engines/dma/dma_math.h"

#include <array>
#include <cstring>

#include "base/check.h"

namespace tessera::engines {
namespace {

using isa::CopyTask;
using isa::KernelTask;
using isa::TransferTask;

// `count` elements from one strided line to another.
struct Line {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::int64_t to_stride = 0, from_stride = 0;
  std::int64_t count = 0;
};

template <typename T>
void move_elements(const Line& line) {
  for (std::int64_t i = 0; i < line.count; ++i) {
    T element;
    std::memcpy(&element, line.from + i * line.from_stride, sizeof(T));
    std::memcpy(line.to + i * line.to_stride, &element, sizeof(T));
  }
}

void move_line(const Line& line, std::int64_t element_bytes) {
  if (line.to_stride == element_bytes && line.from_stride == element_bytes) {
    std::memmove(line.to, line.from, static_cast<std::size_t>(line.count * element_bytes));
    return;
  }
  switch (element_bytes) {
    case 1:
      return move_elements<std::uint8_t>(line);
    case 2:
      return move_elements<std::uint16_t>(line);
    case 4:
      return move_elements<std::uint32_t>(line);
    default:
      TESSERA_CHECK(element_bytes == 8, "element of {} bytes", element_bytes);
      return move_elements<std::uint64_t>(line);
  }
}

}  // namespace

void DmaMath::run_step(std::uint32_t network, const isa::TaskDescriptor& task, std::int64_t step) {
  if (isa::transfer_of(task.config) != nullptr) {
    transfer(network, task, step);
  } else if (const auto* message = std::get_if<isa::MessageTask>(&task.config)) {
    load_matrix(network, *message);
  } else if (const auto* copy_task = std::get_if<CopyTask>(&task.config)) {
    copy(network, *copy_task, task.bands.range(step));
  } else {
    load_kernel(network, std::get<KernelTask>(task.config));
  }
}

void DmaMath::transfer(std::uint32_t network, const isa::TaskDescriptor& descriptor,
                       std::int64_t step) {
  const TransferTask& task = *isa::transfer_of(descriptor.config);
  const bool load = descriptor.engine == isa::EngineKind::kLoad ||
                    descriptor.engine == isa::EngineKind::kMessageIn;
  const std::int64_t image = descriptor.bands.image(step);
  const RowRange rows = descriptor.bands.range(step);
  const auto& strides = task.dram.strides;
  const std::int64_t element = format_bytes(task.buffer.format);
  const Surface surface = state_buffer_.surface(task.buffer, image);
  std::byte* const origin =
      dram_.at(network, task.dram.address) + image * strides[0] + rows.first * strides[2];
  const std::int64_t row_count = rows.last - rows.first;
  const std::int64_t ring_first = (surface.row_origin + rows.first) % surface.ring_rows;
  // Rows behind each other on both sides are one line.
  const bool dense = strides[2] == strides[3] * surface.columns &&
                     surface.row_pitch == surface.column_pitch * surface.columns &&
                     ring_first + row_count <= surface.ring_rows;
  const std::int64_t lines = dense ? 1 : row_count;
  const std::int64_t line_elements = dense ? row_count * surface.columns : surface.columns;
  for (std::int64_t i = 0; i < task.channel_count; ++i) {
    for (std::int64_t row = 0; row < lines; ++row) {
      std::byte* const dram = origin + i * strides[1] + row * strides[2];
      std::byte* const buffer = surface.row(task.channel_first + i, rows.first + row);
      if (load) {
        move_line({buffer, dram, surface.column_pitch, strides[3], line_elements}, element);
      } else {
        move_line({dram, buffer, strides[3], surface.column_pitch, line_elements}, element);
      }
    }
  }
}

void DmaMath::copy(std::uint32_t network, const CopyTask& task, RowRange rows) {
  const auto axes = static_cast<int>(task.extents.size());
  std::array<std::int64_t, 8> extents{}, index{};
  for (int i = 0; i < axes; ++i) {
    const auto a = static_cast<std::size_t>(i);
    extents[a] = i == 0 ? rows.last - rows.first : task.extents[a];
  }
  const std::int64_t fill_stride = 0;
  std::byte* to = dram_.at(network, task.destination) + rows.first * task.destination_strides[0];
  const std::byte* from = reinterpret_cast<const std::byte*>(&task.fill_bits);
  if (!task.fill) from = dram_.at(network, task.source) + rows.first * task.source_strides[0];
  const auto inner = static_cast<std::size_t>(axes - 1);
  const auto source_stride = [&](std::size_t a) {
    return task.fill ? fill_stride : task.source_strides[a];
  };
  while (true) {
    move_line({to, from, task.destination_strides[inner], source_stride(inner), extents[inner]},
              task.element_bytes);
    int axis = axes - 2;
    for (; axis >= 0; --axis) {
      const auto a = static_cast<std::size_t>(axis);
      to += task.destination_strides[a];
      from += source_stride(a);
      if (++index[a] < extents[a]) break;
      to -= task.destination_strides[a] * extents[a];
      from -= source_stride(a) * extents[a];
      index[a] = 0;
    }
    if (axis < 0) return;
  }
}

void DmaMath::load_kernel(std::uint32_t network, const KernelTask& task) {
  const std::byte* source = dram_.at(network, task.source);
  if (task.stream.compressed()) {
    const Status status =
        expand_kernel_stream(task.stream, {source, task.stream.stored_bytes},
                             {kernel_memory_.at(0, task.kernel_offset), kernel_memory_.pitch(),
                              task.partitions, task.bytes_per_partition});
    TESSERA_CHECK(status.ok(), "{}, although the task manager has checked it",
                  status.error().message);
    return;
  }
  for (std::uint32_t p = 0; p < task.partitions; ++p) {
    std::memcpy(kernel_memory_.at(p, task.kernel_offset),
                source + static_cast<std::int64_t>(p) * static_cast<std::int64_t>(task.dram_pitch),
                task.bytes_per_partition);
  }
}

// The message processor cuts the matrix to tiles on its way.
void DmaMath::load_matrix(std::uint32_t network, const isa::MessageTask& task) {
  const std::vector<std::byte> image =
      make_kernel_image(task.image, dram_.at(network, task.transfer.dram.address));
  const auto bytes = static_cast<std::size_t>(task.image.bytes_per_partition());
  for (std::int64_t p = 0; p < task.image.rows; ++p) {
    std::memcpy(kernel_memory_.at(p, task.kernel_offset),
                image.data() + static_cast<std::size_t>(p) * bytes, bytes);
  }
}

}  // namespace tessera::engines
