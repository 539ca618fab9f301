// Takes a program's tags through its memories, step by step in a legal order: transfers and
// transpositions move tags, work on the numbers reads the tags of its inputs and writes new ones.
//
//   load ─► state buffer: (x, 0) (x, 1) ...  ─► conv1 reads them: its input is x ─► (conv1, 0) ...
//
// What a layer has read is written down per element of its input. Tasks of one layer, and steps
// that read an element again, must find the same tag, or they are not one layer.
#pragma once

#include <array>
#include <memory>
#include <set>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "concord/lift/groups.h"
#include "concord/lift/kernels.h"
#include "concord/lift/operand.h"
#include "graph/graph.h"

namespace tessera::concord {

// A group after the walk.
struct LiftedLayer {
  std::vector<Operand> inputs;
  StationaryOperand stationary;
  LiftedValue value = kNothing;
  // The axes of its tensors, outermost first.
  std::array<std::size_t, 4> order = {kImages, kChannels, kRows, kColumns};
  bool as_matrix = false;  // a product of matrices: pixels x channels
};

struct LiftedStep {
  std::shared_ptr<const graph::Graph> graph;  // of the one node
  std::vector<Operand> inputs;                // default where the step has a constant
  std::vector<LiftedValue> outputs;
};

struct Walk {
  std::vector<ValueInfo> values;    // by LiftedValue
  std::vector<LiftedValue> inputs;  // of each program input
  Table<GroupIndex, LiftedLayer> layers;
  std::vector<LiftedStep> steps;
  std::vector<Operand> outputs;  // of each program output
  // Groups (>= 0) and host steps (-1 - index) in the order in which they were finished.
  std::vector<std::int32_t> finished;
  std::set<std::uint32_t> broken;  // layers whose tasks are not of one layer; if any, nothing holds
};

Result<Walk> walk_tags(const isa::Program& program, const ChipConfig& chip, const Groups& groups);

}  // namespace tessera::concord
