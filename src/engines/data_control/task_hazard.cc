#include "engines/data_control/task_hazard.h"

#include <algorithm>
#include <variant>

namespace tessera::engines {

using program::BufferSurface;
using program::NeuralTask;
using program::PlanarTask;

BufferSpan surface_span(const BufferSurface& surface, std::int64_t partitions) {
  const std::int64_t blocks =
      surface.broadcast_channels ? 1 : ceil_div(surface.channels, partitions);
  const std::int64_t linear_rows = std::int64_t{surface.images} * surface.rows;
  const std::int64_t rows = std::min<std::int64_t>(linear_rows, surface.ring_rows);
  const std::int64_t first = surface.offset;
  return {first, first + (blocks - 1) * surface.block_pitch + (rows - 1) * surface.row_pitch +
                     (std::int64_t{surface.columns} - 1) * surface.column_pitch +
                     format_bytes(surface.format)};
}

bool reads_results_of(const program::TaskDescriptor& later, const program::TaskDescriptor& earlier,
                      std::int64_t partitions) {
  const BufferSurface* output = nullptr;
  if (const auto* neural = std::get_if<NeuralTask>(&earlier.config)) output = &neural->output;
  if (const auto* planar = std::get_if<PlanarTask>(&earlier.config)) output = &planar->output;
  if (output == nullptr) return true;
  const BufferSpan written = surface_span(*output, partitions);
  const auto reads = [&](const BufferSurface& input) {
    return surface_span(input, partitions).overlaps(written);
  };
  if (const auto* neural = std::get_if<NeuralTask>(&later.config)) {
    return reads(neural->moving) || (neural->dynamic && reads(neural->stationary));
  }
  if (const auto* planar = std::get_if<PlanarTask>(&later.config)) {
    return reads(planar->inputs[0]) || (planar->input_count > 1 && reads(planar->inputs[1]));
  }
  return true;
}

}  // namespace tessera::engines
