// A program's host steps, opened: the program carries them as bytes (package/host_step.h).
#pragma once

#include <memory>
#include <vector>

#include "card/core.h"
#include "graph/graph.h"
#include "isa/program.h"

namespace tessera::device {

struct OpenStep {
  std::shared_ptr<const graph::Graph> graph;  // of the one node
  std::vector<isa::TensorSlot> inputs, outputs;
};
using OpenSteps = std::vector<std::vector<OpenStep>>;  // of each segment

Result<OpenSteps> open_steps(const isa::Program& program);

// Reads the step's inputs from DRAM, evaluates its node and writes the outputs back. `network` is
// the one on the core that the step belongs to.
Status run_step(card::Core& core, const OpenStep& step, std::size_t network = 0);

}  // namespace tessera::device
