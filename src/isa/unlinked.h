// What the linker makes a program of: frames of relocatable tasks, and what goes into the program
// as it is. A package (package/package.h) is that, with the graph it came from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "isa/program.h"

namespace tessera::isa {

// The tasks of one layer are relocatable: a task is named by its frame and its place in it, and the
// linker numbers them.
struct FrameDependency {
  std::uint32_t frame = 0;  // index into Package::frames
  std::uint32_t task = 0;   // index into that frame's tasks
  std::int32_t numerator = 0;
  std::int32_t denominator = 1;
  std::int64_t offset = 0;
};
struct FrameTask {
  TaskDescriptor descriptor;  // id and dependencies are filled by the linker
  std::vector<FrameDependency> dependencies;
  PieceHint piece;
};
struct Frame {
  std::uint32_t layer = 0;    // index into hints
  std::uint32_t segment = 0;  // ascending
  std::vector<FrameTask> tasks;
  Cycles estimated_cycles = 0;  // the performance model's figure for this frame alone
};

struct Unlinked {
  std::uint64_t chip_fingerprint = 0;
  std::string chip_name;
  std::vector<Frame> frames;         // in issue order
  std::vector<HostStep> host_steps;  // host_steps[i] runs after segment i; may be empty refs
  std::uint32_t segments = 1;
  Weights weights;  // kernel images and constant tensors, once
  std::int64_t workspace_bytes = 0;
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::vector<TensorSlot> inputs, outputs;
  std::vector<LayerHint> hints;
  std::int64_t dependencies_dropped = 0;  // pairs of tasks whose order follows from others
};

}  // namespace tessera::isa
