#include "engines/planar/planar_math.h"

#include "arith/kernels/planar/planar.h"
#include "arith/kernels/planar/transpose.h"
#include "arith/wide_sum.h"

namespace tessera::engines {

using isa::PlanarMode;
using isa::PlanarTask;

PlanarPart PlanarMath::part_of(const PlanarTask& task, std::int64_t image) {
  Surface accumulators = state_buffer_.surface(isa::accumulator_surface(task), image);
  accumulators.columns = task.output.columns;
  accumulators.column_pitch = arith::ReduceAccumulator::kStoredBytes;
  return {.continues = task.continues, .keeps = task.keeps, .accumulators = accumulators};
}

void PlanarMath::run_step(const isa::TaskDescriptor& task, std::int64_t step) {
  const auto& planar = std::get<PlanarTask>(task.config);
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  const Surface output = state_buffer_.surface(planar.output, image);
  const ChannelRange channels{0, output.channels};
  Surface input = state_buffer_.surface(planar.inputs[0], image);
  const PlanarPartWork work{input, output, rows};
  switch (planar.mode) {
    case PlanarMode::kPooling:
      if (planar.in_parts()) return pool_part(planar.pool, part_of(planar, image), work);
      pool(planar.pool, input, output, channels, rows);
      return;
    case PlanarMode::kReduction:
      if (planar.in_parts()) return reduce_part(planar.reduce, part_of(planar, image), work);
      reduce(planar.reduce, input, output, channels, rows);
      return;
    case PlanarMode::kTranspose:
      transpose(input, output,
                {.channels = {0, output.columns},
                 .output_first = 0,
                 .output_count = output.channels,
                 .rows = rows});
      return;
    case PlanarMode::kElementwise:
      break;
  }
  const auto broadcast = [&output](Surface& operand) {
    operand.channels = output.channels;
    operand.rows = output.rows;
    operand.columns = output.columns;
  };
  broadcast(input);
  if (!planar.elementwise.binary) {
    elementwise(planar.elementwise, input, nullptr, output, channels, rows);
    return;
  }
  Surface second = state_buffer_.surface(planar.inputs[1], image);
  broadcast(second);
  elementwise(planar.elementwise, input, &second, output, channels, rows);
}

}  // namespace tessera::engines
