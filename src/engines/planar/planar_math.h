// The values of planar steps: pooling, element-wise work, reductions and transpositions over
// state-buffer surfaces. Knows no clock.
#pragma once

#include <cstdint>
#include <string>

#include "engines/memory/partitioned_memory.h"
#include "isa/descriptor.h"

namespace tessera::engines {

class PlanarMath {
 public:
  // The state buffer outlives the object.
  explicit PlanarMath(PartitionedMemory& state_buffer) : state_buffer_(state_buffer) {}
  void run_step(const isa::TaskDescriptor& task, std::int64_t step);
  // Which of `traps` the step just computed met (data_control/exceptions.h).
  ValueExtent extent(const isa::TaskDescriptor& task, std::int64_t step);
  std::string exception(const isa::TaskDescriptor& task, std::int64_t step, std::uint8_t traps);

 private:
  PlanarPart part_of(const isa::PlanarTask& task, std::int64_t image);

  PartitionedMemory& state_buffer_;
};

}  // namespace tessera::engines
