// Program and package: the two results of compilation.
//
//   Package  frames a layer x split x tile, weights once, performance model, the typed graph,
//   hints;
//            knows no core count. Made once, in seconds.
//   Program  one stream of task descriptors for the cores a tenant holds. Made by the linker, in
//            about a millisecond.
//
// Both are stranger's files: magic, version, fingerprint and digest are checked before use
// (program/container.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/quantity.h"
#include "graph/graph.h"
#include "program/descriptor.h"

namespace tessera::program {

// A layer's name and shape, for people: listings, reports, timelines.
struct LayerHint {
  std::string name;                  // graph node name
  std::string kind;                  // "Conv", "Elementwise", ...
  std::vector<std::string> origins;  // ONNX nodes
  Shape output_dims;
  std::int64_t macs = 0;
};

// Where a task's results lie in its layer, and which part of a window it covers: for whoever reads
// a layer out of its tasks (concord/lift.h). The processor takes no notice, and a reader believes
// nothing of it that the tasks themselves do not prove.
struct PieceHint {
  bool known = false;
  // The first of the results, of the layer's [images, channels, rows, columns].
  std::uint32_t image = 0, channel = 0, row = 0, column = 0;
  std::uint32_t input_channel = 0;                  // products: the first of the input's channels
  std::uint32_t window_row = 0, window_column = 0;  // poolings in parts: the first of the window
  friend bool operator==(const PieceHint&, const PieceHint&) = default;
};

// A transposition, for people: what became of it and what the next best way would have cost.
struct TranspositionHint {
  std::string tensor;       // that is turned
  std::string reader;       // the layer, or the model's Transpose, that wants it so
  std::uint32_t layer = 0;  // index into hints: the turning layer, or the reader
  std::string way;          // "array", "planar", "dma", "copy" (DRAM to DRAM), "view" and "swapped"
                            // (nothing left to do)
  std::int64_t elements = 0;                             // of the tensor
  std::int64_t channels = 0, columns = 0, matrices = 0;  // exchanged axes; 0: not cut into matrices
  Cycles cycles = 0;                                     // by the cost formulas
  std::int64_t dram_bytes = 0;
  std::string next_way;  // empty: there is none
  Cycles next_cycles = 0;
};

// Where a model input, output, or a tensor a host step touches lies in DRAM.
struct TensorSlot {
  std::string name;
  std::int32_t tensor = -1;  // graph TensorId
  Format format = Format::kF32;
  Shape dims;
  DramAddress address;  // dense, row-major
  Shape dense_dims =
      {};  // of an input or output in blocks: the shape outside (graph/edge_blocks.h)
};

// An operand of a host step that is no tensor in DRAM.
struct StepConstant {
  std::string name;
  std::shared_ptr<const Tensor> value;
};

// A program runs segment after segment; between two segments the host takes steps. What a step does
// is its body: bytes that nobody looks into but who takes the step (program/host_step.h).
struct HostStep {
  std::int32_t node = -1;  // index into Graph::nodes
  std::vector<TensorSlot> inputs;
  std::vector<TensorSlot> outputs;
  std::string body;  // empty: it is not there
  std::vector<StepConstant> constants = {};
};

// The tasks of one layer under one split, relocatable: task ids are positions in Frame order, and
// dependencies name (frame, task) pairs through `FrameTaskRef`.
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
enum class Split : std::uint8_t { kNone, kWidth, kOutputChannel };
struct Frame {
  std::uint32_t layer = 0;    // index into hints
  std::uint32_t segment = 0;  // ascending
  Split split = Split::kNone;
  std::vector<FrameTask> tasks;
  Cycles estimated_cycles = 0;  // the performance model's figure for this frame alone
};

// Occupancy of a memory, for reports and for the quadratic checker.
struct PlacementRecord {
  std::string name;
  bool in_state_buffer = true;  // else DRAM workspace
  std::int64_t offset = 0;      // bytes (a partition's bytes for the state buffer)
  std::int64_t bytes = 0;
  std::int64_t first_use = 0;  // position in issue order, inclusive
  std::int64_t last_use = 0;
};

struct Package {
  std::uint64_t chip_fingerprint = 0;
  std::string chip_name;
  std::shared_ptr<const graph::Graph> graph;  // with constants
  std::vector<Frame> frames;                  // in issue order
  std::vector<HostStep> host_steps;  // host_steps[i] runs after segment i; may be empty refs
  std::uint32_t segments = 1;
  std::vector<std::byte> weights;  // kernel images and constant tensors, once
  std::int64_t workspace_bytes = 0;
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::vector<TensorSlot> inputs, outputs;
  std::vector<LayerHint> hints;
  std::vector<TranspositionHint> transpositions;
  std::vector<PlacementRecord> placements;
  std::int64_t state_buffer_peak_bytes = 0;  // a partition
  std::int64_t dependencies_dropped = 0;     // pairs of tasks whose order follows from others
};

// A range of tasks run between host steps. A segment may have several host steps behind it.
struct Segment {
  std::uint32_t task_first = 0, task_last = 0;  // [first, last)
  std::vector<HostStep> host_steps;             // after the segment
};

struct Program {
  std::uint64_t chip_fingerprint = 0;
  std::string chip_name;
  std::vector<TaskDescriptor> tasks;          // issue order; decoded form of `stream`
  std::vector<std::byte> stream;              // what the task manager fetches
  std::vector<std::uint32_t> stream_offsets;  // byte offset of each task in `stream`
  std::vector<Segment> segments;
  std::vector<std::byte> weights;
  std::int64_t workspace_bytes = 0, input_bytes = 0, output_bytes = 0;
  std::vector<TensorSlot> inputs, outputs;
  std::vector<LayerHint> hints;
  std::vector<PieceHint> pieces;          // of each task, or none
  std::int64_t dependencies_dropped = 0;  // by compiler and linker: they follow from others

  std::int64_t dependency_count() const {  // of all tasks
    std::size_t count = 0;
    for (const TaskDescriptor& task : tasks) count += task.dependencies.size();
    return static_cast<std::int64_t>(count);
  }
};

}  // namespace tessera::program
