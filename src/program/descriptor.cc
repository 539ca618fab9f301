#include "program/descriptor.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::program {

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
    case EngineKind::kKernel:
      break;
  }
  return "kernel";
}

std::int64_t steps_needed(const Dependency& dependency, std::int64_t j, std::int64_t task_steps) {
  TESSERA_CHECK(dependency.denominator > 0, "denominator {}", dependency.denominator);
  const std::int64_t sum = std::int64_t{dependency.numerator} * j + dependency.offset;
  const std::int64_t denominator = dependency.denominator;
  // Division rounds towards zero, which is the ceiling of a negative quotient.
  const std::int64_t needed = sum > 0 ? ceil_div(sum, denominator) : sum / denominator;
  return std::clamp<std::int64_t>(needed, 0, task_steps);
}

RowRange Bands::range(std::int64_t step) const {
  const std::int64_t band = step % bands();
  const std::int64_t first = band * rows_per_step;
  return {first, std::min<std::int64_t>(rows, first + rows_per_step)};
}

}  // namespace tessera::program
