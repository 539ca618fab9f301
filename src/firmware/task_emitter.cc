#include "firmware/task_emitter.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/quantity.h"
#include "isa/descriptor_check.h"

namespace tessera::firmware {
namespace {

constexpr std::int64_t kStepsOfTaskMax = 1024;           // of a task
constexpr std::size_t kTasksMax = std::size_t{1} << 17;  // of a program

using isa::BufferSurface;
using isa::EngineKind;
using isa::NeuralTask;
using isa::PlanarTask;
using isa::TransferTask;

// One column in place of many, for an operand that is the same along them.
BufferSurface broadcast_columns(BufferSurface surface, std::uint32_t columns) {
  surface.columns = columns;
  surface.column_pitch = 0;
  return surface;
}

}  // namespace

void TaskEmitter::add(EngineKind engine, isa::TaskConfig config, std::int64_t rows) {
  isa::TaskDescriptor task;
  task.engine = engine;
  task.layer = layer_;
  task.bands.rows = static_cast<std::uint32_t>(rows);
  // Bands as large as a pass of the array: a smaller one would load the weights again.
  const std::int64_t band = chip_.neural.psum_bank_columns / columns_;
  const std::int64_t least = ceil_div(rows, kStepsOfTaskMax);
  task.bands.rows_per_step = static_cast<std::uint32_t>(std::clamp(band, least, rows));
  task.config = std::move(config);
  if (engine == EngineKind::kNeural || engine == EngineKind::kPlanar) {
    const ChainEngines& taken = engine == EngineKind::kNeural ? chain_->neural : chain_->planar;
    task.header.engines = taken.engines;
    task.header.sharing = taken.sharing;
  }
  if (const auto* message = std::get_if<isa::MessageTask>(&task.config);
      message != nullptr && chip_.message.ports > 1) {
    const auto ports = static_cast<std::uint32_t>(chip_.message.ports);
    task.header.engines = {.first = static_cast<std::uint8_t>(message->queue % ports), .count = 1};
  }
  tasks_.push_back(std::move(task));
}

// Queues go through the message processors where the chip has them, and through the memory where it
// has none.
void TaskEmitter::move_vectors(bool in, const VectorView& view, const TransferTask& transfer,
                               std::int64_t rows) {
  if (!is_queue(view.memory) || chip_.message.ports == 0) {
    return add(in ? EngineKind::kLoad : EngineKind::kStore, transfer, rows);
  }
  isa::MessageTask messages;
  messages.queue = queue_number(program_, view.symbol);
  messages.transfer = transfer;
  add(in ? EngineKind::kMessageIn : EngineKind::kMessageOut, messages, rows);
}

void TaskEmitter::load_kernel(const KernelPlace& place) {
  isa::KernelTask kernel;
  kernel.source = {isa::BaseIndex::kWeights, static_cast<std::uint64_t>(place.weights_offset)};
  kernel.partitions = static_cast<std::uint32_t>(place.shape.rows);
  kernel.bytes_per_partition = static_cast<std::uint32_t>(place.shape.bytes_per_partition());
  kernel.dram_pitch = kernel.bytes_per_partition;
  kernel.kernel_offset = static_cast<std::uint32_t>(place.kernel_offset);
  isa::TaskDescriptor task;
  task.engine = EngineKind::kKernel;
  task.config = kernel;
  prologue_.push_back(std::move(task));
}

void TaskEmitter::emit_contents() {
  for (std::size_t i = 0; i < program_.symbols.size(); ++i) {
    const Symbol& symbol = program_.symbols[i];
    if (!is_register_file(symbol.memory) || symbol.contents.kind == Contents::Kind::kNone) continue;
    VectorView view;
    view.memory = symbol.memory;
    view.symbol = i;
    view.length = symbol.length;
    view.extents = symbol.extents;
    const std::int64_t plane = symbol.extents[1] * symbol.extents[2];
    const std::int64_t blocks = ceil_div(symbol.length, chip_.state_buffer.partitions);
    view.block_pitch = plane;
    view.pitch = {blocks * plane, symbol.extents[2], 1};
    const Volume volume = memory_.volume_of(view);
    const bool fill = symbol.contents.kind == Contents::Kind::kFill;
    const std::int64_t e = fill ? 0 : memory_.element();
    for (std::int64_t p = 0; p < symbol.extents[0]; ++p) {
      TransferTask load;
      load.dram.address = {
          isa::BaseIndex::kWeights,
          static_cast<std::uint64_t>(memory_.weights_of(i) + p * plane * symbol.length * e)};
      load.dram.strides = {0, e, symbol.extents[2] * symbol.length * e, symbol.length * e};
      load.buffer =
          plane_surface(volume, p, symbol.extents[1], symbol.extents[2], chip_.formats.vector);
      load.channel_count = load.buffer.channels;
      isa::TaskDescriptor task;
      task.engine = EngineKind::kLoad;
      task.bands.rows = task.bands.rows_per_step = load.buffer.rows;
      task.config = load;
      prologue_.push_back(std::move(task));
    }
  }
}

Status TaskEmitter::emit(const Chain& chain, std::uint32_t layer) {
  chain_ = &chain;
  layer_ = layer;
  rows_ = chain.iterations[1];
  columns_ = chain.iterations[2];
  const std::size_t before = tasks_.size();
  // Temporaries follow those of the chains before, so that chains need not wait
  // for each other; where there is no room left, the chain begins again at
  // their first byte.
  for (int attempt = 0; attempt < 2; ++attempt) {
    overflow_ = false;
    macs_ = 0;
    const Status status = emit_once(chain);
    if (tasks_.size() > kTasksMax) {
      return text_.error(chain.place, fmt::format("the chains come to more than {} tasks; iterate "
                                                  "over rows and columns, not over planes",
                                                  kTasksMax));
    }
    if (!overflow_) return status;
    tasks_.resize(before);
    memory_.restart_temporaries();
  }
  return Error{ErrorCode::kDoesNotFit,
               text_
                   .error(chain.place, fmt::format("the temporaries of this chain do not fit into "
                                                   "the {} bytes of a partition behind the "
                                                   "register files; iterate over less at a time",
                                                   memory_.temporary_bytes()))
                   .message};
}

Status TaskEmitter::emit_once(const Chain& chain) {
  if (chain.task) {
    isa::TaskDescriptor task = chain.task->task;
    task.layer = layer_;
    tasks_.push_back(std::move(task));
    return {};
  }
  if (chain.moved_from) return emit_matrix(chain);
  staged_.reset();
  stored_in_first_write_ = false;
  if (!is_register_file(chain.source.memory)) TESSERA_RETURN_IF_ERROR(stage_source());
  for (std::int64_t plane = 0; plane < chain.iterations[0]; ++plane) {
    TESSERA_RETURN_IF_ERROR(emit_plane(plane));
    if (tasks_.size() > kTasksMax) break;
  }
  return {};
}

// A matrix from DRAM, or from a queue, into the matrix register file.
Status TaskEmitter::emit_matrix(const Chain& chain) {
  const Symbol& from = program_.symbols[chain.moved_from->symbol];
  const auto whole = [](const MatrixUse& use, const Symbol& symbol) {
    return MatrixPart{.use = use, .plane_last = symbol.window[0]};
  };
  bool fresh = false;
  auto placed =
      memory_.place_matrix(whole(*chain.moved_to, program_.symbols[chain.moved_to->symbol]), fresh);
  if (!placed.ok()) return text_.error(chain.place, placed.error().message);
  if (is_queue(from.memory)) {
    receive_matrix(chain, *placed);
    return {};
  }
  const KernelPlace source = memory_.place_source(whole(*chain.moved_from, from));
  KernelPlace place = *placed;
  place.weights_offset = source.weights_offset;
  load_kernel(place);
  isa::TaskDescriptor task = std::move(prologue_.back());
  prologue_.pop_back();
  task.layer = layer_;
  tasks_.push_back(std::move(task));
  return {};
}

// [rows, columns] of one message.
void TaskEmitter::receive_matrix(const Chain& chain, const KernelPlace& place) {
  isa::MessageTask message;
  message.kind = isa::MessageKind::kMatrix;
  message.queue = queue_number(program_, chain.moved_from->symbol);
  message.transfer.dram.address = memory_.dram_of(chain.source, 0).address;
  message.image = place.shape;
  message.kernel_offset = static_cast<std::uint32_t>(place.kernel_offset);
  rows_ = columns_ = 1;
  add(EngineKind::kMessageIn, message, 1);
}

// ---- the source ----

// Loads the source from a queue or from DRAM: a window's whole volume,
// otherwise the vectors of the iterations; straight into the first write where
// nothing happens on the way.
Status TaskEmitter::stage_source() {
  VectorView view = chain_->source;
  const bool window = chain_->window.used;
  const Extents extents = window ? view.extents : chain_->iterations;
  if (!window && chain_->operations.empty() && is_register_file(chain_->writes[0].memory)) {
    staged_ = memory_.volume_of(chain_->writes[0]);
    stored_in_first_write_ = true;
  } else {
    staged_ = memory_.temporary(extents, view.length, chip_.formats.vector);
  }
  if (!staged_) {
    overflow_ = true;
    return text_.error(view.place, "no room");
  }
  for (std::int64_t p = 0; p < extents[0]; ++p) {
    TransferTask load;
    load.dram = memory_.dram_of(view, p);
    load.buffer = plane_surface(*staged_, p, extents[1], extents[2], chip_.formats.vector);
    load.channel_count = load.buffer.channels;
    move_vectors(true, view, load, extents[1]);
  }
  return {};
}

// The vectors that enter the chain at this plane of iterations, a window's tap
// at most.
Result<TaskEmitter::Surface> TaskEmitter::source_surface(std::int64_t plane) {
  Volume volume = staged_ ? *staged_ : memory_.volume_of(chain_->source);
  const Window& window = chain_->window;
  if (window.used) {
    plane = plane * window.stride[0] + window.tap[0];
    volume.offset += window.tap[1] * volume.pitch[1] + window.tap[2] * volume.pitch[2];
    volume.pitch[1] *= window.stride[1];
    volume.pitch[2] *= window.stride[2];
  }
  return plane_surface(volume, plane, rows_, columns_, chip_.formats.vector);
}

// ---- operations ----

Status TaskEmitter::emit_plane(std::int64_t plane) {
  const std::vector<ChainOperation>& operations = chain_->operations;
  std::optional<Surface> value;
  bool in_write = stored_in_first_write_;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const ChainOperation& operation = operations[i];
    // An activation behind a product or two operands goes along in the same
    // pass.
    const ChainOperation* activation = nullptr;
    const bool carries = operation.kind != ChainOperation::Kind::kUnary &&
                         operation.kind != ChainOperation::Kind::kSoftmax &&
                         operation.word != "correlate" && !chain_->quantised;
    if (carries && i + 1 < operations.size() &&
        operations[i + 1].kind == ChainOperation::Kind::kUnary) {
      activation = &operations[++i];
    }
    const bool last = i + 1 == operations.size();
    const bool product = operation.kind == ChainOperation::Kind::kProduct ||
                         operation.kind == ChainOperation::Kind::kProductOfVectors;
    in_write = false;
    if (product) {
      TESSERA_TRY(value, this->product(operation, plane, last, activation));
    } else {
      if (!value) {
        TESSERA_TRY(value, source_surface(plane));
      }
      if (chain_->quantised) {
        TESSERA_TRY(value, quantised(*value));
      }
      if (operation.kind == ChainOperation::Kind::kSoftmax) {
        TESSERA_TRY(value, softmax(*value, plane, last));
      } else {
        TESSERA_TRY(value, vector_pass(operation, *value, plane, last, activation));
      }
    }
    if (last && is_register_file(chain_->writes[0].memory)) {
      const Surface first = plane_surface(memory_.volume_of(chain_->writes[0]), plane, rows_,
                                          columns_, chip_.formats.vector);
      in_write = *value == first;
    }
  }
  if (!value) {
    TESSERA_TRY(value, source_surface(plane));
  }
  return finish(*value, in_write ? 1 : 0, plane);
}

Result<TaskEmitter::Surface> TaskEmitter::temporary(std::int64_t length, std::int64_t columns,
                                                    Format format) {
  const auto volume = memory_.temporary({1, rows_, columns}, length, format);
  if (!volume) {
    overflow_ = true;
    return text_.error(chain_->place, "no room");
  }
  return plane_surface(*volume, 0, rows_, columns, format);
}

Result<TaskEmitter::Surface> TaskEmitter::target(bool last, std::int64_t length, std::int64_t plane,
                                                 std::initializer_list<const Surface*> inputs,
                                                 bool in_place) {
  if (last && is_register_file(chain_->writes[0].memory)) {
    const Surface surface = plane_surface(memory_.volume_of(chain_->writes[0]), plane, rows_,
                                          columns_, chip_.formats.vector);
    const std::int64_t partitions = chip_.state_buffer.partitions;
    const bool free = std::ranges::all_of(inputs, [&](const Surface* input) {
      return (in_place && *input == surface) ||
             !surface_span(*input, partitions).overlaps(surface_span(surface, partitions));
    });
    if (free) return surface;
  }
  return temporary(length, columns_, chip_.formats.vector);
}

Result<KernelPlace> TaskEmitter::matrix_part(const MatrixPart& part) {
  bool fresh = false;
  auto place = memory_.place_matrix(part, fresh);
  if (!place.ok()) {
    return Error{place.error().code, text_.error(chain_->place, place.error().message).message};
  }
  const Symbol& symbol = program_.symbols[part.use.symbol];
  if (fresh && symbol.contents.kind != Contents::Kind::kNone) load_kernel(*place);
  return place;
}

// The moving operand and the kernel of a product with a matrix.
Result<TaskEmitter::Surface> TaskEmitter::product_of_matrix(const ChainOperation& operation,
                                                            std::int64_t plane, NeuralTask& task) {
  const Window& window = chain_->window;
  const Symbol& matrix = program_.symbols[operation.matrix.symbol];
  MatrixPart part{.use = operation.matrix};
  Surface moving;
  if (!window.used) {
    TESSERA_TRY(moving, source_surface(plane));
  } else {
    Volume volume = staged_ ? *staged_ : memory_.volume_of(chain_->source);
    const std::int64_t first = plane * window.stride[0] - window.pad[0];
    ProductConfig& product = task.product;
    product.stride_h = window.stride[1];
    product.stride_w = window.stride[2];
    product.pad_top = window.pad[1];
    product.pad_left = window.pad[2];
    std::int64_t source_plane = std::max<std::int64_t>(first, 0);
    if (window.has_tap) {
      product.pad_top -= window.tap[1];
      product.pad_left -= window.tap[2];
      source_plane = first + window.tap[0];
      if (source_plane < 0 || source_plane >= volume.extents[0]) {
        source_plane = 0;  // the tap lies outside: every row of it is padding
        product.pad_top = rows_ * window.stride[1] + 1;
      }
      if (matrix.taps() > 1) {
        part.tap = window.tap[1] * window.size[2] + window.tap[2];
        part.plane_first = window.tap[0];
        part.plane_last = window.tap[0] + 1;
      }
    } else {
      product.kernel_h = window.size[1];
      product.kernel_w = window.size[2];
      part.plane_first = source_plane - first;
      part.plane_last = std::min(window.size[0], volume.extents[0] - first);
      // Planes lie behind each other like blocks of channels.
      volume.length *= part.plane_last - part.plane_first;
    }
    moving = plane_surface(volume, source_plane, volume.extents[1], volume.extents[2],
                           chip_.formats.vector);
  }
  TESSERA_TRY(const KernelPlace place, matrix_part(part));
  task.product.image = place.shape;
  task.kernel_offset = static_cast<std::uint32_t>(place.kernel_offset);
  return moving;
}

Result<TaskEmitter::Surface> TaskEmitter::product(const ChainOperation& operation,
                                                  std::int64_t plane, bool last,
                                                  const ChainOperation* activation) {
  NeuralTask task;
  if (operation.kind == ChainOperation::Kind::kProduct) {
    TESSERA_TRY(task.moving, product_of_matrix(operation, plane, task));
  } else {
    TESSERA_TRY(task.moving, source_surface(plane));
    const VectorView& rows = operation.operand;
    task.dynamic = true;
    task.stationary =
        plane_surface(memory_.volume_of(rows), 0, 1, rows.extents[2], chip_.formats.vector);
    KernelImageShape& image = task.product.image;
    image.channels = rows.length;
    image.output_channels = rows.extents[2];
    image.rows = chip_.neural.rows;
    image.columns = chip_.neural.columns;
    image.format = chip_.formats.vector;
  }
  task.product.matrix = chip_.formats.matrix;
  task.product.output_format = chip_.formats.vector;
  task.product.correlate = operation.word == "correlate";
  if (activation != nullptr) task.product.activation.function = activation->unary;
  if (task.dynamic) {
    TESSERA_TRY(task.output,
                target(last, operation.length, plane, {&task.moving, &task.stationary}, false));
  } else {
    TESSERA_TRY(task.output, target(last, operation.length, plane, {&task.moving}, false));
  }
  const KernelImageShape& image = task.product.image;
  macs_ += rows_ * columns_ * image.output_channels * image.channels * image.taps;
  const Surface output = task.output;
  add(EngineKind::kNeural, task, rows_);
  return output;
}

// Through an identity product, block by block: quantised, nothing else.
Result<TaskEmitter::Surface> TaskEmitter::quantised(const Surface& value) {
  const std::int64_t native = native_vector(chip_);
  TESSERA_TRY(const Surface output, temporary(value.channels, columns_, value.format));
  for (std::int64_t first = 0; first < value.channels; first += native) {
    const std::int64_t count = std::min<std::int64_t>(native, value.channels - first);
    bool fresh = false;
    auto place = memory_.place_identity(count, fresh);
    if (!place.ok()) return text_.error(chain_->place, place.error().message);
    if (fresh) load_kernel(*place);
    NeuralTask task;
    task.product.image = place->shape;
    task.product.matrix = chip_.formats.matrix;
    task.product.output_format = value.format;
    task.kernel_offset = static_cast<std::uint32_t>(place->kernel_offset);
    task.moving = value;
    task.output = output;
    task.moving_channel_first = task.output_channel_first = static_cast<std::uint32_t>(first);
    macs_ += rows_ * columns_ * count * count;
    add(EngineKind::kNeural, task, rows_);
  }
  return output;
}

void TaskEmitter::unary(const Surface& in, const Surface& out, UnaryFunction function) {
  PlanarTask task;
  task.elementwise.activation.function = function;
  task.inputs[0] = in;
  task.output = out;
  add(EngineKind::kPlanar, task, rows_);
}

void TaskEmitter::binary(BinaryFunction function, const Surface& a, const Surface& b,
                         const Surface& out, UnaryFunction activation) {
  PlanarTask task;
  task.elementwise.binary = true;
  task.elementwise.function = function;
  task.elementwise.activation.function = activation;
  task.inputs[0] = a;
  task.inputs[1] = b;
  task.input_count = 2;
  task.output = out;
  add(EngineKind::kPlanar, task, rows_);
}

Result<TaskEmitter::Surface> TaskEmitter::vector_pass(const ChainOperation& operation,
                                                      const Surface& value, std::int64_t plane,
                                                      bool last, const ChainOperation* activation) {
  if (operation.kind == ChainOperation::Kind::kUnary) {
    TESSERA_TRY(const Surface output, target(last, value.channels, plane, {&value}, true));
    unary(value, output, operation.unary);
    return output;
  }
  Surface operand = plane_surface(memory_.volume_of(operation.operand), plane, rows_, columns_,
                                  chip_.formats.vector);
  if (chain_->quantised) {
    TESSERA_TRY(operand, quantised(operand));
  }
  TESSERA_TRY(const Surface output, target(last, value.channels, plane, {&value, &operand}, true));
  binary(operation.binary, operation.swapped ? operand : value, operation.swapped ? value : operand,
         output, activation == nullptr ? UnaryFunction::kIdentity : activation->unary);
  return output;
}

// m = max(x);  e = exp(x - m), two roundings;  s = sum(e) f32;  r = 1/s f32;  y
// = e r. The elements of a vector lie on partitions, so it is turned first, and
// turned back at the end.
Result<TaskEmitter::Surface> TaskEmitter::softmax(const Surface& value, std::int64_t plane,
                                                  bool last) {
  const Format vector = chip_.formats.vector;
  const std::int64_t length = value.channels;
  const auto turn = [this](const Surface& in, const Surface& out) {
    PlanarTask task;
    task.mode = isa::PlanarMode::kTranspose;
    task.inputs[0] = in;
    task.output = out;
    add(EngineKind::kPlanar, task, rows_);
  };
  const auto reduce = [this](ReduceFunction function, const Surface& in, const Surface& out) {
    PlanarTask task;
    task.mode = isa::PlanarMode::kReduction;
    task.reduce.function = function;
    task.inputs[0] = in;
    task.output = out;
    add(EngineKind::kPlanar, task, rows_);
  };
  const auto count = static_cast<std::uint32_t>(length);
  TESSERA_TRY(const Surface turned, temporary(columns_, length, vector));
  TESSERA_TRY(const Surface largest, temporary(columns_, 1, vector));
  TESSERA_TRY(const Surface power, temporary(columns_, length, vector));
  TESSERA_TRY(const Surface sum, temporary(columns_, 1, Format::kF32));
  TESSERA_TRY(const Surface factor, temporary(columns_, 1, Format::kF32));
  TESSERA_TRY(const Surface shares, temporary(columns_, length, vector));
  turn(value, turned);
  reduce(ReduceFunction::kMaximum, turned, largest);
  binary(BinaryFunction::kSubtract, turned, broadcast_columns(largest, count), power,
         UnaryFunction::kExp);
  reduce(ReduceFunction::kSum, power, sum);
  unary(sum, factor, UnaryFunction::kReciprocal);
  binary(BinaryFunction::kMultiply, power, broadcast_columns(factor, count), shares,
         UnaryFunction::kIdentity);
  TESSERA_TRY(const Surface output, target(last, length, plane, {&value}, true));
  turn(shares, output);
  return output;
}

// ---- writes ----

// The chain's value to its writes from `first` on.
Status TaskEmitter::finish(const Surface& value, std::size_t first, std::int64_t plane) {
  for (std::size_t i = first; i < chain_->writes.size(); ++i) {
    const VectorView& write = chain_->writes[i];
    if (is_register_file(write.memory)) {
      const Surface surface =
          plane_surface(memory_.volume_of(write), plane, rows_, columns_, chip_.formats.vector);
      if (!(surface == value)) unary(value, surface, UnaryFunction::kIdentity);
      continue;
    }
    TransferTask store;
    store.dram = memory_.dram_of(write, plane);
    store.buffer = value;
    store.channel_count = value.channels;
    move_vectors(false, write, store, rows_);
  }
  return {};
}

}  // namespace tessera::firmware
