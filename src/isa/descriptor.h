// Task descriptors: what the compiler says to the processor.
//
// A task is a slice of a layer. Its descriptor configures the whole nest; every component walks the
// nest by itself (a rasterizer), step after step. A step is a band of output rows; when it is
// finished the task's progress counter goes up by one. Order within an engine is the order of its
// queue; between engines only dependencies order anything.
//
//   header: task id, network, engines, dependencies, hint   address data: (register, count, values)
//
// In memory a descriptor is a header followed by register writes (docs/formats/program.md);
// encode()/decode() in isa/encoding.h are the only code that knows the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arith/kernels/planar/planar.h"
#include "arith/kernels/product_config.h"
#include "arith/kernels/weights/kernel_image.h"
#include "arith/kernels/weights/kernel_stream.h"
#include "base/quantity.h"
#include "base/table.h"
#include "isa/task_header.h"

namespace tessera::isa {

using TaskId = std::uint32_t;  // index in the program's task list, in issue order
inline constexpr TaskId kNoTask = UINT32_MAX;

// The engines (queues) of a core.
enum class EngineKind : std::uint8_t {
  kNeural,  // products on the array
  kPlanar,  // pooling, element-wise, reduction, transposition, channel-wise products
  kLoad,    // data DMA, DRAM to state buffer
  kStore,   // data DMA, state buffer to DRAM, DRAM to DRAM copies and fills
  kKernel,  // kernel DMA, DRAM to kernel memory
  // Message processors, which only some chips have (message.ports): from the network edge to state
  // buffer or kernel memory, and from the state buffer to the edge.
  kMessageIn,
  kMessageOut,
};
inline constexpr int kEngineKindCount = 7;
// Those that every core has come first.
inline constexpr int kCommonEngineKindCount = 5;
inline bool is_message_engine(EngineKind kind) {
  return kind == EngineKind::kMessageIn || kind == EngineKind::kMessageOut;
}
// One of each.
template <typename T>
using ByEngine = FixedTable<EngineKind, T, kEngineKindCount>;
// "neural", "planar", "load", "store", "kernel", "message_in", "message_out"
const char* engine_kind_name(EngineKind kind);

// "Before my step j (1-based) may start, `task` has finished at least
//   clamp(ceil((numerator * j + offset) / denominator), 0, steps of task)
// steps." Read after write, write after read and write after write are all of this form;
// numerator 0 with offset = denominator * steps is a full barrier.
// `task` may be the task itself: a step that reads what an earlier step of the task writes waits
// until that one is finished. No step may ask for itself or a later one.
struct Dependency {
  TaskId task = kNoTask;
  std::int32_t numerator = 0;
  std::int32_t denominator = 1;  // > 0
  std::int64_t offset = 0;
  friend bool operator==(const Dependency&, const Dependency&) = default;
};
// The same of a task of another core that runs a part of the same program (isa/card_program.h). What
// that core finishes is known here some cycles later. Never of a core on itself.
struct RemoteDependency {
  std::uint32_t core = 0;  // its place in the program's cores
  Dependency on;           // on.task: of that core's tasks
  friend bool operator==(const RemoteDependency&, const RemoteDependency&) = default;
};
// Steps of `task` (which has `task_steps`) that must be finished before step j = 1.. of the reader.
std::int64_t steps_needed(const Dependency& dependency, std::int64_t j, std::int64_t task_steps);
// The first step j (1-based) of a task of `steps` steps that could never begin, because a dependency
// of the task on itself asks for more than the j - 1 steps before it; 0 if there is none. For
// |offset| <= 2^61.
std::int64_t first_step_waiting_for_itself(const Dependency& dependency, std::int64_t steps);

// A surface in the state buffer. Channel c lies in partition (c % P), P of the chip, of channel
// block c / P, at byte
//   offset + (c / P) * block_pitch + ((image * rows + row) % ring_rows) * row_pitch
//          + column * column_pitch
// of the partition. Pitches of 0 broadcast. With broadcast_channels there is one channel only, in
// partition 0, seen by all.
struct BufferSurface {
  std::uint32_t offset = 0;
  Format format = Format::kF16;
  std::uint32_t images = 1, channels = 1, rows = 1, columns = 1;
  std::uint32_t block_pitch = 0, row_pitch = 0, column_pitch = 0;
  std::uint32_t ring_rows = 1;  // in linear rows (image * rows + row)
  bool broadcast_channels = false;
  bool broadcast_images = false;  // image index taken as 0
  bool broadcast_rows = false;    // row index taken as 0
  friend bool operator==(const BufferSurface&, const BufferSurface&) = default;
};

// An address in DRAM: a row of the base-address table plus an offset, so that descriptors are never
// rewritten.
enum class BaseIndex : std::uint8_t {
  kWeights,    // the package's weight region
  kWorkspace,  // intermediate tensors
  kInput,      // model inputs
  kOutput,     // model outputs
};
inline constexpr int kBaseIndexCount = 4;
// One of each.
template <typename T>
using ByBase = FixedTable<BaseIndex, T, kBaseIndexCount>;
struct DramAddress {
  BaseIndex base = BaseIndex::kWorkspace;
  std::uint64_t offset = 0;  // bytes
  friend bool operator==(const DramAddress&, const DramAddress&) = default;
};

// The bands of a task: `images` images of `rows` output rows each, `rows_per_step` rows per step.
// Step s (0-based) is image s / bands, rows [b * rows_per_step, min(rows, (b + 1) * rows_per_step))
// with b = s % bands, bands = ceil(rows / rows_per_step).
struct Bands {
  std::uint32_t images = 1;
  std::uint32_t rows = 1;
  std::uint32_t rows_per_step = 1;
  std::int64_t bands() const { return ceil_div(rows, rows_per_step); }
  std::int64_t steps() const { return images * bands(); }
  std::uint32_t image(std::int64_t step) const {
    return static_cast<std::uint32_t>(step / bands());
  }
  RowRange range(std::int64_t step) const;
  friend bool operator==(const Bands&, const Bands&) = default;
};

// ---- neural engine, and channel-wise products on the planar engine ----

// The sums of a product whose terms come in parts, a task each: between two of them they stay,
// exact, in the PSUM of the neural engines of the task. The first part has the bias, the last one the
// activation, the requantisation and the results; isa/psum.h says what else must hold.
struct PsumUse {
  bool keeps = false;       // leaves its sums in PSUM and writes no result
  bool continues = false;   // adds to the sums that the part before left
  std::uint32_t first = 0;  // the first entry that they take in each PSUM partition
  bool in_parts() const { return keeps || continues; }
  friend bool operator==(const PsumUse&, const PsumUse&) = default;
};

struct NeuralTask {
  ProductConfig product;                   // this slice's groups and output channels
  BufferSurface moving;                    // all channels of the input tensor view
  std::uint32_t moving_channel_first = 0;  // the slice's first input channel (grouped slices)
  BufferSurface output;                    // all channels of the output tensor view
  std::uint32_t output_channel_first = 0;  // where this slice's channels go
  // Stationary operand: kernel memory, or (dynamic) a surface with channels = K, columns = N and a
  // row for each tap of the kernel.
  bool dynamic = false;
  std::uint32_t kernel_offset = 0;      // bytes in each kernel memory partition
  std::uint32_t bias_offset = 0;        // vector images (see kernel_image.h), bytes in a partition
  std::uint32_t multiplier_offset = 0;  // f32, only if product.requantise
  std::uint32_t multiplier_count = 0;   // 1 or output channels
  std::uint32_t zero_point_offset = 0;  // i32 stationary zero points
  std::uint32_t zero_point_count = 0;   // 0 (all zero), 1 or output channels
  BufferSurface stationary;             // if dynamic
  std::uint32_t stationary_channel_first = 0;  // the first of its K channels in `stationary`
  // Identity product: m = output.columns channels of the moving surface, from
  // moving_channel_first on, with n = moving.columns columns, leave exactly, bit for bit, as n
  // channels of the output, from output_channel_first on, with m columns; row by row. No quantiser,
  // no post-processor. The block loop (arch/cost.h) is in product.image: blocks of `channels` x
  // `output_channels`, each in passes of at most `rows` x `columns`.
  bool transpose = false;
  // A part that keeps its sums names its output for its extents alone.
  PsumUse psum;
};

// ---- planar engine ----

// kTranspose: the format converter turns the input [channels = m, columns = n] to [channels = n,
// columns = m] row by row, bit for bit, through the line buffer.
// What else a mode means to those who compute no values is in planar_modes.cc.
// kGainBias: x * gain, then + bias, from inputs[0], [1] and [2] in one pass (gain_bias() in
// arith/kernels/planar/planar.h), by the activation and the affine ends of `elementwise`.
enum class PlanarMode : std::uint8_t { kPooling, kElementwise, kReduction, kTranspose, kGainBias };
inline constexpr std::array<std::string_view, 5> kPlanarModeNames = {  // by number, as in texts
    "pooling", "elementwise", "reduction", "transpose", "gain_bias"};
inline constexpr int kPlanarInputsMax = 3;
struct PlanarTask {
  PlanarMode mode = PlanarMode::kElementwise;
  PoolConfig pool;
  ElementwiseConfig elementwise;
  ReduceConfig reduce;
  BufferSurface inputs[kPlanarInputsMax];
  BufferSurface output;
  std::uint8_t input_count = 1;
  // Of a pooling or a reduction whose elements come in parts, a task each, in their order. Between
  // two of them lie accumulators (arith::ReduceAccumulator) in the state buffer.
  bool continues = false;                // takes up the accumulators that the part before left
  bool keeps = false;                    // leaves accumulators and writes no result
  std::uint32_t accumulator_offset = 0;  // bytes in each partition
  // Where the results' first channel goes, counted from the output's first partition: they may begin
  // anywhere, but for those of a transposition or of parts. The output has the results' channels alone.
  std::uint32_t output_channel_first = 0;
  bool in_parts() const { return continues || keeps; }
};
// The output surface with the channels before the results.
BufferSurface surface_of_results(const PlanarTask& task);
// Where its accumulators lie: four columns of 64 bits for each column of the output.
BufferSurface accumulator_surface(const PlanarTask& task);

// ---- data DMA ----

// A view of DRAM as [images, channels, rows, columns], byte strides (0 broadcasts).
struct DramView {
  DramAddress address;
  std::array<std::int64_t, 4> strides = {0, 0, 0, 0};
  friend bool operator==(const DramView&, const DramView&) = default;
};

// DRAM to state buffer or back, band by band. `buffer` gives the extents and the element size.
struct TransferTask {
  DramView dram;
  BufferSurface buffer;
  std::uint32_t channel_first = 0, channel_count = 0;  // of the buffer's channels
};

// DRAM to DRAM: a strided box of elements, or a fill. One step per outermost index, in
// `steps` equal parts (the last may be shorter).
struct CopyTask {
  bool fill = false;
  std::uint64_t fill_bits = 0;
  std::uint32_t element_bytes = 2;
  DramAddress source, destination;
  std::vector<std::int64_t> extents;              // outermost first, 1 to 8 axes
  std::vector<std::int64_t> source_strides;       // bytes
  std::vector<std::int64_t> destination_strides;  // bytes
};

// ---- kernel DMA ----

// `partitions` runs of `bytes_per_partition` bytes, `dram_pitch` apart in DRAM, each to the same
// offset of its kernel memory partition. A compressed kernel is one run of stream.stored_bytes at
// `source`, expanded on the way (kernel_stream.h); dram_pitch is 0 then.
struct KernelTask {
  DramAddress source;
  std::uint64_t dram_pitch = 0;
  std::uint32_t partitions = 128;
  std::uint32_t bytes_per_partition = 0;
  std::uint32_t kernel_offset = 0;
  KernelStream stream;

  std::int64_t expanded_bytes() const { return std::int64_t{partitions} * bytes_per_partition; }
  // That cross the memory channel.
  std::int64_t stored_bytes() const {
    return stream.compressed() ? static_cast<std::int64_t>(stream.stored_bytes) : expanded_bytes();
  }
};

// ---- message processors ----

// kVector: a vector is a pixel of the surface, all its channels; a message each. One step is a band.
// kMatrix: one message in one step, [output channels, channels] row-major, into kernel memory.
enum class MessageKind : std::uint8_t { kVector, kMatrix };
inline constexpr std::array<std::string_view, 2> kMessageKindNames = {"vector", "matrix"};

// Messages of one queue through one port. The bytes of those that have come, and of those to be sent,
// are in the regions of inputs and outputs, where the host puts and takes them; they pass the port,
// and not the memory channel.
struct MessageTask {
  MessageKind kind = MessageKind::kVector;
  std::uint32_t queue = 0;          // of its direction, below kMessageQueuesMax
  TransferTask transfer;            // of vectors; of a matrix transfer.dram.address alone
  KernelImageShape image;           // of a matrix: 1 group, 1 tap
  std::uint32_t kernel_offset = 0;  // bytes in each kernel memory partition

  std::int64_t matrix_bytes() const {
    return image.output_channels * image.channels * format_bytes(image.format);
  }
};
inline constexpr std::uint32_t kMessageQueuesMax = 1 << 16;

using TaskConfig =
    std::variant<NeuralTask, PlanarTask, TransferTask, CopyTask, KernelTask, MessageTask>;

// What moves between a region of DRAM and a surface: a transfer, or messages that are vectors; or null.
const TransferTask* transfer_of(const TaskConfig& config);

struct TaskDescriptor {
  TaskId id = 0;
  std::uint32_t network = 0;
  EngineKind engine = EngineKind::kNeural;
  bool switch_allowed = true;  // another network may follow at this boundary
  Bands bands;                 // CopyTask: rows = extents[0]; KernelTask, matrix: one step
  std::vector<Dependency> dependencies;
  std::vector<RemoteDependency> remote = {};
  TaskConfig config;
  std::uint32_t layer = 0;  // index into the hints: the layer's name and logical shape
  TaskHeader header;        // engines and their sharing, traps, debugging, operands

  std::int64_t steps() const { return bands.steps(); }
};
// Whether the task writes kernel memory: a kernel task, or a matrix that comes as a message.
bool brings_kernel(const TaskDescriptor& task);

}  // namespace tessera::isa
