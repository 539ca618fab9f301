// Runs a program, compiled or written by hand, without a network around it: on the virtual
// processor, or lifted to a graph (concord/lift/lift.h) on host and ref. One for several cores runs on
// a card's.
//
//   run(inputs):   segment 0, 1, ... ─► outputs
//   streaming:     begin(): all segments but the last    step(inputs): the last, as often as wanted
//
// Between steps the memories of the chip keep what they hold: weights and the state of a recurrent
// program stay where they are.
#pragma once

#include <memory>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "card/card.h"
#include "card/core.h"
#include "device/host_steps.h"
#include "device/network_dram.h"
#include "host/executor.h"
#include "isa/card_program.h"
#include "tessera/device_kind.h"
#include "tessera/network.h"
#include "tessera/run_result.h"

namespace tessera::device {

struct ProgramRunOptions {
  DeviceKind device = DeviceKind::kSim;
  int threads = 0;             // host; 0 = all cores
  bool timing_only = false;    // sim: skip the values, same cycles; outputs are empty
  bool check_hazards = false;  // sim: report two tasks that race
  // sim: run a program whose order nobody has proved; its descriptors are checked all the same.
  bool unverified = false;
  bool trace = false;      // sim: keep the timeline
  std::uint8_t traps = 0;  // sim: exceptions of values that end the run (tessera/traps.h)
};

class ProgramRun {
 public:
  // Proves the program, unless the options say not to, and places it on a core or lifts it.
  static Result<std::unique_ptr<ProgramRun>> create(isa::Program program, const ChipConfig& chip,
                                                    const ProgramRunOptions& options);
  // The cores lie as spread_cores() places them.
  static Result<std::unique_ptr<ProgramRun>> create(isa::CardProgram program,
                                                    const ChipConfig& chip,
                                                    const ProgramRunOptions& options);

  // Of the first core where there are several.
  const isa::Program& program() const { return program_.cores.front(); }
  const isa::CardProgram& card_program() const { return program_; }
  // In the application's form, also where the program has them in blocks. Of several images those of the
  // first come first.
  std::vector<TensorDescription> inputs() const;
  std::vector<TensorDescription> outputs() const;

  // The whole program; inputs in the program's order.
  Result<RunResult> run(const std::vector<Tensor>& inputs);

  // Streaming. A program without a time loop of its own has one segment, which is the step.
  // Only the virtual processor has memories that keep something between steps. On one core.
  Result<RunResult> begin();
  Result<RunResult> step(const std::vector<Tensor>& inputs);

 private:
  ProgramRun(isa::CardProgram program, const ChipConfig& chip, const ProgramRunOptions& options);
  Status lift();
  Status place();
  Status check_inputs(const std::vector<Tensor>& inputs) const;
  Status write_inputs(const std::vector<Tensor>& inputs);
  Status run_segment(std::size_t segment, const card::CoreOptions& options, RunResult& result);
  Result<RunResult> run_segments(std::size_t first, std::size_t last, bool with_outputs);

  const isa::CardProgram program_;
  const ChipConfig chip_;
  const ProgramRunOptions options_;
  OpenSteps host_steps_;
  // sim: a core, or several; their DRAM
  std::unique_ptr<card::Core> core_;
  std::unique_ptr<card::Card> card_;
  std::vector<CorePlace> places_;  // of several
  std::unique_ptr<NetworkDram> dram_;
  std::unique_ptr<host::Executor> executor_;  // host and ref
  bool messages_go_on_ = false;               // from the segment before
};

}  // namespace tessera::device
