// The planar engine: when pooling, element-wise work and reductions happen. Values come from
// planar_math.h, cycle counts from arch/cost.h.
//
//   2 read ports ─► converters ─► [ row filter ] ─► line buffer ─► [ column filter ] ─► converters
//                                                                       └─ square root, reciprocal
//
// `lanes` channels at once, elements_per_lane of each a cycle; converters, filters and line buffer
// are pipelined, so the slowest of input, function and output sets the pace of a step. The
// converter turns tiles by way of the line buffer: in by columns, out by rows.
#pragma once

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "engines/data_control/step_engine.h"
#include "engines/planar/planar_math.h"

namespace tessera::engines {

// A step of a task in the plain numbers of the cost formula.
PlanarWork planar_work(const program::PlanarTask& task, RowRange rows);

class PlanarEngine : public StepEngine {
 public:
  // `math` outlives the engine.
  PlanarEngine(const ChipConfig& chip, Wiring wiring, PlanarMath& math);

 protected:
  TaskPlan plan(const program::TaskDescriptor& task) override;
  StepCost cost(const program::TaskDescriptor& task, std::int64_t step) override;
  void execute(RunTaskId id, std::int64_t step) override;

 private:
  const PlanarEngineConfig config_;
  PlanarMath& math_;
};

}  // namespace tessera::engines
