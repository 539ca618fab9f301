#include "compile/transposition_program.h"

#include <algorithm>
#include <utility>

#include "arch/architecture_file.h"
#include "base/quantity.h"
#include "compile/buffer_layout.h"
#include "compile/surface_conventions.h"
#include "compile/transposition.h"
#include "isa/dependencies.h"
#include "isa/encoding.h"

namespace tessera::compile {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::EngineKind;

// A matrix in DRAM, seen with its channels on rows or on columns.
struct MatrixInDram {
  BaseIndex base = BaseIndex::kInput;
  std::int64_t offset = 0;  // bytes
  std::int64_t channel_stride = 0, column_stride = 0;
};

class Builder {
 public:
  Builder(const ChipConfig& chip, const TranspositionProblem& problem)
      : chip_(chip), problem_(problem), element_(format_bytes(problem.format)) {}

  TranspositionProgram run() {
    const std::int64_t capacity = chip_.state_buffer.bytes_per_partition;
    result_.resident = bytes(problem_.rows, problem_.columns) <= capacity;
    if (result_.resident) {
      resident();
      result_.segment = 1;
    } else {
      streamed();
    }
    finish();
    return std::move(result_);
  }

 private:
  // Bytes a partition of `channels` x `columns`.
  std::int64_t side(std::int64_t channels, std::int64_t columns) const {
    return round_up(ceil_div(channels, chip_.state_buffer.partitions) * columns * element_,
                    kAlignmentBytes);
  }
  std::int64_t bytes(std::int64_t m, std::int64_t n) const { return side(m, n) + side(n, m); }

  BufferSurface surface(std::int64_t offset, std::int64_t channels, std::int64_t columns) const {
    BufferSurface surface;
    surface.offset = static_cast<std::uint32_t>(offset);
    surface.format = problem_.format;
    surface.channels = static_cast<std::uint32_t>(channels);
    surface.columns = static_cast<std::uint32_t>(columns);
    surface.column_pitch = static_cast<std::uint32_t>(element_);
    surface.row_pitch = static_cast<std::uint32_t>(columns * element_);
    surface.block_pitch = surface.row_pitch;
    return surface;
  }

  void add(EngineKind engine, isa::TaskConfig config) {
    isa::TaskDescriptor task;
    task.id = static_cast<isa::TaskId>(tasks_.size());
    task.engine = engine;
    task.config = std::move(config);
    tasks_.push_back(std::move(task));
    segments_.push_back(segment_);
  }

  void transfer(EngineKind engine, const BufferSurface& buffer, const MatrixInDram& matrix) {
    isa::TransferTask task;
    task.buffer = buffer;
    task.channel_count = buffer.channels;
    task.dram.address = {matrix.base, static_cast<std::uint64_t>(matrix.offset)};
    task.dram.strides = {0, matrix.channel_stride, 0, matrix.column_stride};
    add(engine, task);
  }

  void turn(const BufferSurface& from, const BufferSurface& to) {
    if (problem_.way == TranspositionWay::kPlanar) {
      isa::PlanarTask task;
      task.mode = isa::PlanarMode::kTranspose;
      task.inputs[0] = from;
      task.output = to;
      add(EngineKind::kPlanar, task);
      return;
    }
    isa::NeuralTask task;
    task.transpose = true;
    KernelImageShape& blocks = task.product.image;
    blocks.channels = blocks.output_channels = chip_.state_buffer.partitions;
    blocks.rows = chip_.neural.rows;
    blocks.columns = chip_.neural.columns;
    task.moving = from;
    task.output = to;
    add(EngineKind::kNeural, std::move(task));
  }

  // The matrix at `base`, from element (row, column) on; `turned`: with its columns as channels.
  MatrixInDram at(BaseIndex base, std::int64_t width, std::int64_t row, std::int64_t column,
                  bool turned) const {
    const std::int64_t down = width * element_;
    return {base, (row * width + column) * element_, turned ? element_ : down,
            turned ? down : element_};
  }

  void resident() {
    const std::int64_t m = problem_.rows;
    const std::int64_t n = problem_.columns;
    const BufferSurface from = surface(0, m, n);
    const BufferSurface to = surface(side(m, n), n, m);
    transfer(EngineKind::kLoad, from, at(BaseIndex::kInput, n, 0, 0, false));
    segment_ = 1;
    if (problem_.way == TranspositionWay::kDma) {
      transfer(EngineKind::kStore, from, at(BaseIndex::kWorkspace, n, 0, 0, false));
      transfer(EngineKind::kLoad, to, at(BaseIndex::kWorkspace, n, 0, 0, true));
    } else {
      turn(from, to);
    }
    segment_ = 2;
    transfer(EngineKind::kStore, to, at(BaseIndex::kOutput, m, 0, 0, false));
  }

  // Chunks as square as they can be; two of them at a time.
  void streamed() {
    const std::int64_t partitions = chip_.state_buffer.partitions;
    const std::int64_t capacity = chip_.state_buffer.bytes_per_partition;
    std::int64_t m = problem_.rows;
    std::int64_t n = problem_.columns;
    while (2 * bytes(m, n) > capacity && (m > 1 || n > 1)) {
      std::int64_t& longer = m >= n ? m : n;
      const std::int64_t half = ceil_div(longer, 2);
      longer = half > partitions ? round_up(half, partitions) : half;
    }
    const std::int64_t slot = bytes(m, n);
    std::int64_t chunk = 0;
    for (std::int64_t r = 0; r < problem_.rows; r += m) {
      for (std::int64_t c = 0; c < problem_.columns; c += n, ++chunk) {
        add_chunk({r, c, std::min(m, problem_.rows - r), std::min(n, problem_.columns - c)},
                  chunk % 2 * slot, chunk % 2 * slot + side(m, n));
      }
    }
    result_.chunks = chunk;
  }

  struct Chunk {
    std::int64_t row = 0, column = 0, rows = 1, columns = 1;
  };

  void add_chunk(const Chunk& chunk, std::int64_t from_offset, std::int64_t to_offset) {
    const BufferSurface to = surface(to_offset, chunk.columns, chunk.rows);
    if (problem_.way == TranspositionWay::kDma) {
      transfer(EngineKind::kLoad, to,
               at(BaseIndex::kInput, problem_.columns, chunk.row, chunk.column, true));
    } else {
      const BufferSurface from = surface(from_offset, chunk.rows, chunk.columns);
      transfer(EngineKind::kLoad, from,
               at(BaseIndex::kInput, problem_.columns, chunk.row, chunk.column, false));
      turn(from, to);
    }
    transfer(EngineKind::kStore, to,
             at(BaseIndex::kOutput, problem_.rows, chunk.column, chunk.row, false));
  }

  void finish() {
    isa::derive_dependencies(chip_, segments_, tasks_);
    isa::Program& program = result_.program;
    program.chip_fingerprint = fingerprint(chip_);
    program.chip_name = chip_.name;
    program.input_bytes = program.output_bytes = program.workspace_bytes =
        problem_.rows * problem_.columns * element_;
    const auto slot = [&](const char* name, Shape dims, BaseIndex base) {
      return isa::TensorSlot{.name = name,
                             .tensor = -1,
                             .format = problem_.format,
                             .dims = std::move(dims),
                             .address = {base, 0}};
    };
    program.inputs = {slot("matrix", {problem_.rows, problem_.columns}, BaseIndex::kInput)};
    program.outputs = {slot("transpose", {problem_.columns, problem_.rows}, BaseIndex::kOutput)};
    program.hints = {{.name = "transpose",
                      .kind = "Transposition",
                      .origins = {},
                      .output_dims = program.outputs[0].dims}};
    program.segments.resize(segment_ + 1);
    for (const isa::TaskDescriptor& task : tasks_) {
      program.stream_offsets.push_back(static_cast<std::uint32_t>(program.stream.size()));
      const std::vector<std::byte> encoded = isa::encode(task);
      program.stream.insert(program.stream.end(), encoded.begin(), encoded.end());
    }
    for (std::uint32_t s = 0; s <= segment_; ++s) {
      const auto [first, last] = std::equal_range(segments_.begin(), segments_.end(), s);
      program.segments[s].task_first = static_cast<std::uint32_t>(first - segments_.begin());
      program.segments[s].task_last = static_cast<std::uint32_t>(last - segments_.begin());
    }
    program.tasks = std::move(tasks_);
  }

  const ChipConfig& chip_;
  const TranspositionProblem& problem_;
  const std::int64_t element_;
  std::uint32_t segment_ = 0;
  std::vector<isa::TaskDescriptor> tasks_;
  std::vector<std::uint32_t> segments_;  // of each task
  TranspositionProgram result_;
};

}  // namespace

TranspositionProgram make_transposition_program(const ChipConfig& chip,
                                                const TranspositionProblem& problem) {
  return Builder(chip, problem).run();
}

}  // namespace tessera::compile
