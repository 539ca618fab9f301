#include "isa/task_hazard.h"

#include <optional>
#include <variant>

#include "isa/descriptor_check.h"

namespace tessera::isa {

bool reads_results_of(const TaskDescriptor& later, const TaskDescriptor& earlier,
                      std::int64_t partitions) {
  std::optional<BufferSurface> output;
  if (const auto* neural = std::get_if<NeuralTask>(&earlier.config)) {
    // Sums in PSUM are added to in the order in which they leave the array.
    if (neural->psum.keeps) return false;
    output = neural->output;
  }
  if (const auto* planar = std::get_if<PlanarTask>(&earlier.config)) {
    output = planar->keeps ? accumulator_surface(*planar) : planar->output;
  }
  if (!output) return true;
  const BufferSpan written = surface_span(*output, partitions);
  const auto reads = [&](const BufferSurface& input) {
    return surface_span(input, partitions).overlaps(written);
  };
  if (const auto* neural = std::get_if<NeuralTask>(&later.config)) {
    return reads(neural->moving) || (neural->dynamic && reads(neural->stationary));
  }
  if (const auto* planar = std::get_if<PlanarTask>(&later.config)) {
    for (int i = 0; i < planar->input_count; ++i) {
      if (reads(planar->inputs[i])) return true;
    }
    return planar->continues && reads(accumulator_surface(*planar));
  }
  return true;
}

}  // namespace tessera::isa
