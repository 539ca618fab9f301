#include "engines/planar/planar_math.h"

#include "arith/kernels/planar/planar.h"
#include "arith/kernels/planar/transpose.h"
#include "arith/wide_sum.h"
#include "engines/data_control/exceptions.h"

namespace tessera::engines {

using isa::PlanarMode;
using isa::PlanarTask;

PlanarPart PlanarMath::part_of(const PlanarTask& task, std::int64_t image) {
  Surface accumulators = state_buffer_.surface(isa::accumulator_surface(task), image);
  accumulators.columns = task.output.columns;
  accumulators.column_pitch = arith::ReduceAccumulator::kStoredBytes;
  return {.continues = task.continues, .keeps = task.keeps, .accumulators = accumulators};
}

ValueExtent PlanarMath::extent(const isa::TaskDescriptor& task, std::int64_t step) {
  return extent_of_results(state_buffer_, task, step);
}

std::string PlanarMath::exception(const isa::TaskDescriptor& task, std::int64_t step,
                                  std::uint8_t traps) {
  return exception_in_results(state_buffer_, task, step, traps);
}

void PlanarMath::run_step(const isa::TaskDescriptor& task, std::int64_t step) {
  const auto& planar = std::get<PlanarTask>(task.config);
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  const Surface output = state_buffer_.surface(planar.output, image);
  const ChannelRange channels{0, output.channels};
  const Surface input = state_buffer_.surface(planar.inputs[0], image);
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
    case PlanarMode::kGainBias:
      break;
  }
  Surface operands[isa::kPlanarInputsMax] = {input, {}, {}};
  for (int i = 0; i < planar.input_count; ++i) {
    if (i > 0) operands[i] = state_buffer_.surface(planar.inputs[i], image);
    operands[i].channels = output.channels;
    operands[i].rows = output.rows;
    operands[i].columns = output.columns;
  }
  if (planar.mode == PlanarMode::kGainBias) {
    gain_bias(planar.elementwise, operands, output, channels, rows);
  } else {
    elementwise(planar.elementwise, operands[0], &operands[1], output, channels, rows);
  }
}

}  // namespace tessera::engines
