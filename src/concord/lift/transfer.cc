#include "concord/lift/transfer.h"

#include <array>

namespace tessera::concord {

using isa::CopyTask;
using isa::DramAddress;
using isa::NeuralTask;
using isa::PlanarTask;
using isa::TransferTask;

void TagTransfer::run_step(const isa::TaskDescriptor& task, std::int64_t step) {
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  if (isa::transfer_of(task.config) != nullptr) return transfer(task, step);
  if (const auto* copied = std::get_if<CopyTask>(&task.config)) return copy(*copied, rows);
  if (const auto* neural = std::get_if<NeuralTask>(&task.config)) {
    return turn({neural->moving, neural->output, neural->moving_channel_first,
                 neural->output_channel_first, neural->output.columns, neural->moving.columns},
                image, rows);
  }
  const auto& planar = std::get<PlanarTask>(task.config);
  turn({planar.inputs[0], planar.output, 0, 0, planar.output.columns, planar.output.channels},
       image, rows);
}

void TagTransfer::transfer(const isa::TaskDescriptor& descriptor, std::int64_t step) {
  const TransferTask& task = *isa::transfer_of(descriptor.config);
  const bool load = descriptor.engine == isa::EngineKind::kLoad ||
                    descriptor.engine == isa::EngineKind::kMessageIn;
  const std::int64_t image = descriptor.bands.image(step);
  const RowRange rows = descriptor.bands.range(step);
  const auto& strides = task.dram.strides;
  const std::int64_t width = core_.granules(task.buffer.format);
  const TagSurface surface = core_.surface(task.buffer, image);
  for (std::int64_t c = 0; c < task.channel_count; ++c) {
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      Tag* const line = surface.row(task.channel_first + c, r);
      const std::int64_t byte = image * strides[0] + c * strides[1] + r * strides[2];
      for (std::int64_t x = 0; x < task.buffer.columns; ++x) {
        for (std::int64_t g = 0; g < width; ++g) {
          Tag& cell = line[x * surface.column_pitch + g];
          const std::int64_t at = byte + x * strides[3] + g * core_.granule_bytes();
          if (load) {
            cell = core_.load(task.dram.address, at);
          } else {
            *core_.dram(task.dram.address, at) = cell;
          }
        }
      }
    }
  }
}

void TagTransfer::copy(const CopyTask& task, RowRange rows) {
  const std::size_t axes = task.extents.size();
  const std::int64_t granule = core_.granule_bytes();
  const std::int64_t width = task.element_bytes / granule;
  const std::uint64_t mask = (std::uint64_t{1} << 8 * granule) - 1;
  std::array<std::int64_t, 8> at{};
  at[0] = rows.first;
  for (;;) {
    std::int64_t from = 0, to = 0;
    for (std::size_t a = 0; a < axes; ++a) {
      to += at[a] * task.destination_strides[a];
      if (!task.fill) from += at[a] * task.source_strides[a];
    }
    for (std::int64_t g = 0; g < width; ++g) {
      *core_.dram(task.destination, to + g * granule) =
          task.fill ? make_tag(kFill, task.fill_bits >> 8 * granule * g & mask)
                    : core_.load(task.source, from + g * granule);
    }
    std::size_t axis = axes;
    while (axis-- > 0) {
      if (++at[axis] < (axis == 0 ? rows.last : task.extents[axis])) break;
      at[axis] = 0;
      if (axis == 0) return;
    }
  }
}

void TagTransfer::turn(const Turn& turn, std::int64_t image, RowRange rows) {
  const std::int64_t width = core_.granules(turn.from.format);
  const TagSurface from = core_.surface(turn.from, image);
  const TagSurface to = core_.surface(turn.to, image);
  for (std::int64_t r = rows.first; r < rows.last; ++r) {
    for (std::int64_t c = 0; c < turn.channels; ++c) {
      const Tag* const line = from.row(turn.from_first + c, r);
      for (std::int64_t x = 0; x < turn.columns; ++x) {
        Tag* const cell = to.row(turn.to_first + x, r) + c * to.column_pitch;
        for (std::int64_t g = 0; g < width; ++g) cell[g] = line[x * from.column_pitch + g];
      }
    }
  }
}

}  // namespace tessera::concord
