#include "engines/planar/planar_math.h"

#include <algorithm>

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

namespace {

// Calls work(output, channels) for ranges of channels whose results lie where the output, moved as it
// is passed, has them.
template <typename Work>
void for_each_place(const PlanarTask& task, const Surface& output, Work work) {
  const std::int64_t first = task.output_channel_first;
  if (first == 0) return work(output, ChannelRange{0, output.channels});
  const std::int64_t partitions = output.partitions;
  for (std::int64_t channel = 0; channel < output.channels;) {
    const std::int64_t last =
        std::min({output.channels, channel + partitions - channel % partitions,
                  channel + partitions - (first + channel) % partitions});
    Surface moved = output;
    moved.base = output.row(first + channel, 0) - (output.row(channel, 0) - output.base);
    work(moved, ChannelRange{channel, last});
    channel = last;
  }
}

}  // namespace

void PlanarMath::run_step(const isa::TaskDescriptor& task, std::int64_t step) {
  const auto& planar = std::get<PlanarTask>(task.config);
  const std::int64_t image = task.bands.image(step);
  const RowRange rows = task.bands.range(step);
  const Surface output = state_buffer_.surface(planar.output, image);
  const Surface input = state_buffer_.surface(planar.inputs[0], image);
  if (planar.mode == PlanarMode::kTranspose) {
    return transpose(input, output,
                     {.channels = {0, output.columns},
                      .output_first = 0,
                      .output_count = output.channels,
                      .rows = rows});
  }
  if (planar.in_parts()) {
    const PlanarPartWork work{input, output, rows};
    return planar.mode == PlanarMode::kPooling
               ? pool_part(planar.pool, part_of(planar, image), work)
               : reduce_part(planar.reduce, part_of(planar, image), work);
  }
  Surface operands[isa::kPlanarInputsMax] = {input, {}, {}};
  for (int i = 0; i < planar.input_count; ++i) {
    if (i > 0) operands[i] = state_buffer_.surface(planar.inputs[i], image);
    operands[i].channels = output.channels;
    operands[i].rows = output.rows;
    operands[i].columns = output.columns;
  }
  for_each_place(planar, output, [&](const Surface& results, ChannelRange channels) {
    switch (planar.mode) {
      case PlanarMode::kPooling:
        return pool(planar.pool, input, results, channels, rows);
      case PlanarMode::kReduction:
        return reduce(planar.reduce, input, results, channels, rows);
      case PlanarMode::kGainBias:
        return gain_bias(planar.elementwise, operands, results, channels, rows);
      case PlanarMode::kElementwise:
        return elementwise(planar.elementwise, operands[0], &operands[1], results, channels, rows);
      case PlanarMode::kTranspose:
        return;
    }
  });
}

}  // namespace tessera::engines
