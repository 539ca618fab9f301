// The neural engine: when products and transpositions happen. Values come from neural_math.h, cycle
// counts from arch/cost.h, and array_model.h is the oracle of those.
//
//   input buffer ─► shifter ─► [PE array R x C, weights double-buffered] ─► PSUM ─► post-processor
//                                     ▲ kernel extraction ◄─ kernel memory
//
// Rasterizer nest of a step: convolution group, work unit (the pixels a PSUM bank holds),
// output-channel block of C, tile of R along the sum. Each of the `neural.count` engines is one of
// these; those that share a task do it as its descriptor says, or in the cheaper way.
#pragma once

#include "arch/chip_config.h"
#include "arch/cost.h"
#include "engines/data_control/step_engine.h"
#include "engines/neural/neural_math.h"

namespace tessera::engines {

class NeuralEngine : public StepEngine {
 public:
  // `math`, which no other engine uses, outlives the engine.
  NeuralEngine(const ChipConfig& chip, Wiring wiring, NeuralMath& math);
  std::int64_t port_readers() const override {
    return sharing_ == StepSharing::kUnicast ? share().count : 1;
  }

 protected:
  TaskPlan plan(const isa::TaskDescriptor& task, const EngineShare& share) override;
  StepCost cost(const isa::TaskDescriptor& task, std::int64_t step) override;
  void execute(RunTaskId id, std::int64_t step) override;
  std::string exception(RunTaskId id, std::int64_t step, std::uint8_t traps,
                        const arith::StickyFlags& flags) override;
  StepValues values(RunTaskId id, std::int64_t step) override;

 private:
  const ChipConfig chip_;
  const NeuralEngineConfig config_;
  NeuralMath& math_;
  ProductWork work_;
  StepSharing sharing_ = StepSharing::kBroadcast;
};

}  // namespace tessera::engines
