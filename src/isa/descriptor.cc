#include "isa/descriptor.h"

#include <algorithm>

#include "arith/wide_sum.h"
#include "base/check.h"

namespace tessera::isa {

const char* engine_kind_name(EngineKind kind) {
  switch (kind) {
    case EngineKind::kNeural:
      return "neural";
    case EngineKind::kPlanar:
      return "planar";
    case EngineKind::kLoad:
      return "load";
    case EngineKind::kStore:
      return "store";
    case EngineKind::kMessageIn:
      return "message_in";
    case EngineKind::kMessageOut:
      return "message_out";
    case EngineKind::kKernel:
      break;
  }
  return "kernel";
}

const TransferTask* transfer_of(const TaskConfig& config) {
  if (const auto* message = std::get_if<MessageTask>(&config)) {
    return message->kind == MessageKind::kVector ? &message->transfer : nullptr;
  }
  return std::get_if<TransferTask>(&config);
}

bool brings_kernel(const TaskDescriptor& task) {
  const auto* message = std::get_if<MessageTask>(&task.config);
  return task.engine == EngineKind::kKernel ||
         (message != nullptr && message->kind == MessageKind::kMatrix);
}

std::int64_t steps_needed(const Dependency& dependency, std::int64_t j, std::int64_t task_steps) {
  TESSERA_CHECK(dependency.denominator > 0, "denominator {}", dependency.denominator);
  const std::int64_t sum = std::int64_t{dependency.numerator} * j + dependency.offset;
  const std::int64_t denominator = dependency.denominator;
  // Division rounds towards zero, which is the ceiling of a negative quotient.
  const std::int64_t needed = sum > 0 ? ceil_div(sum, denominator) : sum / denominator;
  return std::clamp<std::int64_t>(needed, 0, task_steps);
}

std::int64_t first_step_waiting_for_itself(const Dependency& dependency, std::int64_t steps) {
  // ceil((a j + b) / d) > j - 1 exactly where (a - d) j + (b + d) > 0.
  const std::int64_t slope = std::int64_t{dependency.numerator} - dependency.denominator;
  const std::int64_t constant = dependency.offset + dependency.denominator;
  if (slope + constant > 0) return 1;
  if (slope <= 0) return 0;
  const std::int64_t first = -constant / slope + 1;
  return first <= steps ? first : 0;
}

BufferSurface surface_of_results(const PlanarTask& task) {
  BufferSurface surface = task.output;
  surface.channels += task.output_channel_first;
  return surface;
}

BufferSurface accumulator_surface(const PlanarTask& task) {
  constexpr std::uint32_t kWords = arith::ReduceAccumulator::kStoredBytes / 8;
  BufferSurface surface;
  surface.offset = task.accumulator_offset;
  surface.format = Format::kI64;
  surface.images = task.output.images;
  surface.channels = task.output.channels;
  surface.rows = task.output.rows;
  surface.columns = task.output.columns * kWords;
  surface.column_pitch = 8;
  surface.row_pitch = surface.columns * surface.column_pitch;
  surface.ring_rows = surface.images * surface.rows;
  surface.block_pitch = surface.ring_rows * surface.row_pitch;
  return surface;
}

RowRange Bands::range(std::int64_t step) const {
  const std::int64_t band = step % bands();
  const std::int64_t first = band * rows_per_step;
  return {first, std::min<std::int64_t>(rows, first + rows_per_step)};
}

}  // namespace tessera::isa
