// A program: one stream of task descriptors for the cores a tenant holds, with what lies around it.
// The linker makes it out of frames (isa/unlinked.h) in about a millisecond.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arith/format.h"
#include "arith/tensor.h"
#include "isa/core_region.h"
#include "isa/descriptor.h"
#include "isa/weights.h"

namespace tessera::isa {

// A layer's name and shape, for listings, reports and timelines.
struct LayerHint {
  std::string name;                  // graph node name
  std::string kind;                  // "Conv", "Elementwise", ...
  std::vector<std::string> origins;  // ONNX nodes
  Shape output_dims;
  std::int64_t macs = 0;
  friend bool operator==(const LayerHint&, const LayerHint&) = default;
};

// Where a task's results lie in its layer, and which part of a window it covers: for lifting
// (concord/lift/lift.h). The processor ignores it, and lifting uses only what the tasks themselves
// prove.
struct PieceHint {
  bool known = false;
  // The first of the results, of the layer's [images, channels, rows, columns].
  std::uint32_t image = 0, channel = 0, row = 0, column = 0;
  std::uint32_t input_channel = 0;                  // products: the first of the input's channels
  std::uint32_t window_row = 0, window_column = 0;  // poolings in parts: the first of the window
  friend bool operator==(const PieceHint&, const PieceHint&) = default;
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
  friend bool operator==(const TensorSlot&, const TensorSlot&) = default;
};

// A tensor in the section of another file.
struct TensorPart {
  Format format = Format::kF32;
  Shape dims;
  SectionPart place;
  friend bool operator==(const TensorPart&, const TensorPart&) = default;
};

// An operand of a host step that is no tensor in DRAM.
struct StepConstant {
  std::string name;
  std::shared_ptr<const Tensor> value;  // null: elsewhere, and not read yet
  // Where it lies in the file that the program refers to, if it refers to one.
  std::optional<TensorPart> part = {};
  // Of the values, where both are read.
  friend bool operator==(const StepConstant& a, const StepConstant& b) {
    const bool both = a.value != nullptr && b.value != nullptr;
    return a.name == b.name && a.part == b.part &&
           (both ? *a.value == *b.value : a.value == b.value);
  }
};

// A program runs segment after segment; between two segments the host takes steps. What a step does
// is its body: bytes that only the device that takes the step opens (package/host_step.h).
struct HostStep {
  std::int32_t node = -1;  // index into the nodes of the package's graph
  std::vector<TensorSlot> inputs;
  std::vector<TensorSlot> outputs;
  std::string body;  // empty: it is not there
  std::vector<StepConstant> constants = {};
  friend bool operator==(const HostStep&, const HostStep&) = default;
};

// A range of tasks run between host steps. A segment may have several host steps behind it.
struct Segment {
  std::uint32_t task_first = 0, task_last = 0;  // [first, last)
  std::vector<HostStep> host_steps;             // after the segment
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct Program {
  std::uint64_t chip_fingerprint = 0;
  std::string chip_name;
  std::vector<TaskDescriptor> tasks;          // issue order; decoded form of `stream`
  std::vector<std::byte> stream;              // what the task manager fetches
  std::vector<std::uint32_t> stream_offsets;  // byte offset of each task in `stream`
  std::vector<Segment> segments;
  Weights weights;
  // The file with the weights and constants that lie elsewhere, by its path from the program's folder;
  // empty: the program holds them all.
  std::string weights_file = {};
  std::int64_t workspace_bytes = 0, input_bytes = 0, output_bytes = 0;
  std::optional<CoreRegion> region = {};  // of the core's memories; none: the whole of them
  std::vector<TensorSlot> inputs, outputs;
  std::vector<LayerHint> hints;
  std::vector<PieceHint> pieces;          // of each task, or none
  std::int64_t dependencies_dropped = 0;  // by compiler and linker: they follow from others

  std::int64_t dependency_count() const {  // of all tasks
    std::size_t count = 0;
    for (const TaskDescriptor& task : tasks) count += task.dependencies.size();
    return static_cast<std::int64_t>(count);
  }
  // Of the stream, of which `tasks` is the decoded form, and of all else; weights are read.
  friend bool operator==(const Program& a, const Program& b);
};

}  // namespace tessera::isa
