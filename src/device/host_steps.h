// A program's host steps, opened: the program carries them as bytes (package/host_step.h); and how
// long the host takes beside the processor (arch/host_time.h).
#pragma once

#include <memory>
#include <vector>

#include "arch/chip_config.h"
#include "device/network_dram.h"
#include "graph/graph.h"
#include "isa/program.h"
#include "tessera/run_result.h"

namespace tessera::device {

struct OpenStep {
  std::shared_ptr<const graph::Graph> graph;  // of the one node
  std::vector<isa::TensorSlot> inputs, outputs;
};
using OpenSteps = std::vector<std::vector<OpenStep>>;  // of each segment

Result<OpenSteps> open_steps(const isa::Program& program);

// Reads the step's inputs from DRAM, evaluates its node and writes the outputs back.
Status run_step(NetworkDram& dram, const OpenStep& step);

// In cycles of the core's clock.
struct HostTime {
  Cycles step = 0;      // on the host
  Cycles transfer = 0;  // over the link
  Cycles both() const { return step + transfer; }
  HostTime& operator+=(const HostTime& other) {
    step += other.step;
    transfer += other.transfer;
    return *this;
  }
};

// A transfer to the host with what the step reads from DRAM, the step, and one back.
HostTime host_time(const OpenStep& step, const ChipConfig& chip);
// Of one step after the other.
HostTime host_time(const std::vector<OpenStep>& steps, const ChipConfig& chip);
// A transfer with all inputs, and one with all outputs, without those that messages bring and take.
Cycles edge_transfer_cycles(const isa::Program& program, const ChipConfig& chip);
// What a run has on its way besides the processor: all of its steps, inputs and outputs.
void add_host_time(const isa::Program& program, const OpenSteps& steps, const ChipConfig& chip,
                   RunResult& result);

}  // namespace tessera::device
