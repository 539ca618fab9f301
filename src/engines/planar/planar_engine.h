// The planar engine: when pooling, element-wise work and reductions happen. Values come from
// planar_math.h, cycle counts from arch/cost.h.
//
//                        kernel memory, one row per lane ───┐
//   2 read ports ─► converters ─► [ row filter ] ─► line buffer ─► [ column filter ] ─► converters
//                                                                       └─ square root, reciprocal
//
// `lanes` channels at once, elements_per_lane of each a cycle; converters, filters and line buffer
// are pipelined, so the slowest of input, function and output sets the pace of a step. The
// converter turns tiles by way of the line buffer: in by columns, out by rows. A channel-wise
// product is a filter with taps of its own for each channel; a lane reads them from its partition
// of kernel memory.
#pragma once

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "engines/data_control/step_engine.h"
#include "engines/neural/neural_math.h"
#include "engines/planar/planar_math.h"

namespace tessera::engines {

class PlanarEngine : public StepEngine {
 public:
  // `math`, and `filters`, which no other engine uses, outlive the engine.
  PlanarEngine(const ChipConfig& chip, Wiring wiring, PlanarMath& math, NeuralMath& filters);

 protected:
  TaskPlan plan(const isa::TaskDescriptor& task, const EngineShare& share) override;
  StepCost cost(const isa::TaskDescriptor& task, std::int64_t step) override;
  void execute(RunTaskId id, std::int64_t step) override;
  std::string exception(RunTaskId id, std::int64_t step, std::uint8_t traps,
                        const arith::StickyFlags& flags) override;
  StepValues values(RunTaskId id, std::int64_t step) override;

 private:
  const PlanarEngineConfig config_;
  PlanarMath& math_;
  NeuralMath& filters_;
};

}  // namespace tessera::engines
