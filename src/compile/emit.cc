#include "compile/emit.h"

#include <algorithm>

#include "arch/cost.h"
#include "base/check.h"
#include "compile/kernel_memory.h"
#include "compile/pieces.h"
#include "compile/residency.h"
#include "compile/transposition.h"
#include "isa/psum.h"
#include "isa/work.h"

namespace tessera::compile {
namespace {

using isa::Bands;
using isa::BufferSurface;
using isa::CopyTask;
using isa::DramAddress;
using isa::EngineKind;
using isa::KernelTask;
using isa::NeuralTask;
using isa::PlanarTask;
using isa::TaskDescriptor;
using isa::TransferTask;

// A task takes about this many steps at most; a step is a band of at least a PSUM bank's pixels.
constexpr std::int64_t kStepsWanted = 24;

StorageView without_broadcast(StorageView view) {
  for (std::size_t i = 0; i < 4; ++i) {
    if (view.strides[i] == 0) view.extents[i] = 1;
  }
  return view;
}

class Emitter {
 public:
  Emitter(const PlanInputs& inputs, const Plan& plan, const Addresses& addresses,
          const DramOrders& orders, const StepPixels& steps)
      : inputs_(inputs),
        plan_(plan),
        addresses_(addresses),
        orders_(orders),
        steps_(steps),
        kernel_memory_(inputs.chip.neural.kernel_bytes_per_partition) {
    const auto set = [](std::size_t count, auto& first, auto& last) {
      first.assign(count, -1);
      last.assign(count, -1);
    };
    set(plan.buffer_blocks.size(), result_.block_first, result_.block_last);
    set(plan.home_blocks.size(), result_.home_first, result_.home_last);
  }

  EmittedTasks run() {
    const Table<LayerIndex, std::int32_t> segments = layer_segments(inputs_.layers);
    std::int32_t last_segment = -1;
    for (PieceIndex i = 0; i < std::ssize(plan_.pieces); ++i) {
      const Piece& piece = plan_.pieces[i];
      const auto segment = segments[piece.layer];
      if (segment != last_segment) {
        kernel_memory_ = KernelMemory(inputs_.chip.neural.kernel_bytes_per_partition);
        emit_first_kernel(i, segments);
        last_segment = segment;
      }
      emit_piece(piece);
      result_.segments.resize(result_.tasks.size(), static_cast<std::uint32_t>(segment));
    }
    return std::move(result_);
  }

 private:
  const PlannedLayer& layer_of(const Piece& piece) const { return inputs_.layers[piece.layer]; }
  const Storage& storage(StorageIndex index) const { return inputs_.storages.storages[index]; }
  std::int64_t now() const { return static_cast<std::int64_t>(result_.tasks.size()); }

  void touch_block(std::int32_t block) {
    auto& first = result_.block_first[block];
    if (first < 0) first = now();
    result_.block_last[block] = now();
  }
  void touch_home(StorageIndex index) {
    const std::int32_t home = plan_.homes[index];
    if (home < 0) return;
    auto& first = result_.home_first[home];
    if (first < 0) first = now();
    result_.home_last[home] = now();
  }

  void emit_piece(const Piece& piece) {
    const PlannedLayer& layer = layer_of(piece);
    step_pixels_ = steps_.empty() ? step_pixels(inputs_) : steps_[piece.layer];
    for (const std::int32_t i : piece.copies) {
      emit_copy(piece, layer.copies[i]);
    }
    for (const PieceMove& move : piece.moves) emit_move(piece, move);
    if (layer.kind == LayerKind::kCopy || layer.kind == LayerKind::kHost) return;
    if (piece.inputs.empty()) return;  // loads alone
    for (const PieceOperand& input : piece.inputs) {
      if (input.transfer) emit_load(piece, input);
    }
    if (layer.kind == LayerKind::kNeural) {
      emit_neural(piece, layer);
    } else if (layer.kind == LayerKind::kTranspose) {
      if (layer.way == TranspositionWay::kDma) return emit_passing_store(piece);
      emit_transposition(piece, layer);
    } else {
      emit_planar(piece, layer);
    }
    if (piece.output.transfer) emit_store(piece, piece.output.view);
    for (const StorageView& edge : piece.edges) emit_store(piece, edge);
  }

  isa::PieceHint hint_of(const Piece& piece) const {
    const auto index = [](std::int64_t first) { return static_cast<std::uint32_t>(first); };
    isa::PieceHint hint;
    hint.known = true;
    hint.image = index(piece.output.image_first);
    hint.channel = index(piece.output.channel_first);
    hint.row = index(piece.output.row_first);
    hint.column = index(piece.output.column_first);
    if (piece.slice >= 0) {
      const KernelSlice& slice = layer_of(piece).slices[piece.slice];
      hint.input_channel = index(slice.moving_channel_first);
    }
    hint.window_row = index(piece.part.window_row);
    hint.window_column = index(piece.part.window_column);
    return hint;
  }

  TaskDescriptor& add(const Piece& piece, EngineKind engine, const Bands& bands,
                      isa::TaskConfig config) {
    TaskDescriptor task;
    task.id = static_cast<isa::TaskId>(result_.tasks.size());
    task.engine = engine;
    task.bands = bands;
    task.config = std::move(config);
    task.layer = static_cast<std::uint32_t>(piece.layer);
    if (const auto* product = std::get_if<NeuralTask>(&task.config)) {
      sums_kept_ = product->psum.keeps;
    }
    task.switch_allowed = !sums_kept_;  // another network would write over sums in PSUM
    result_.tasks.push_back(std::move(task));
    result_.pieces.push_back(hint_of(piece));
    result_.numbers.push_back(static_cast<std::int32_t>(result_.numbers.size()));
    return result_.tasks.back();
  }

  // Bands for `view`: about kStepsWanted of them, none below the pixels of a step, and within
  // the tile budget.
  Bands bands_of(const StorageView& view) const {
    const std::int64_t wanted = std::max(step_pixels_ / view.columns(),
                                         ceil_div(view.rows() * view.images(), kStepsWanted));
    const std::int64_t rows = std::clamp<std::int64_t>(wanted, 1, rows_of_step_max(view));
    return bands_of(view, ceil_div(view.rows(), ceil_div(view.rows(), rows)));
  }
  Bands bands_of(const StorageView& view, std::int64_t rows) const {
    return {static_cast<std::uint32_t>(view.images()), static_cast<std::uint32_t>(view.rows()),
            static_cast<std::uint32_t>(rows)};
  }
  std::int64_t rows_of_step_max(const StorageView& view) const {
    if (inputs_.options.tile_budget_bytes == 0) return view.rows();
    const std::int64_t row_bytes =
        view_bytes(view.part(2, 0, 1).part(0, 0, 1), storage(view.storage).format,
                   inputs_.chip.state_buffer.partitions);
    return std::clamp<std::int64_t>(inputs_.options.tile_budget_bytes / 2 / row_bytes, 1,
                                    view.rows());
  }
  // Some rows more where the array then takes pixels of several rows at once, or fills its passes
  // better.
  Bands bands_of(const StorageView& view, const NeuralTask& task) const {
    constexpr std::int64_t kMoreRows = 7;
    const ChipConfig& chip = inputs_.chip;
    const ProductWork work = product_work(task, chip);
    const auto cycles = [&](std::int64_t rows) {
      return neural_task_cycles(chip.neural, work, {view.images(), view.rows(), rows});
    };
    const Bands plain = bands_of(view);
    std::int64_t best = plain.rows_per_step;
    const std::int64_t most = std::min(rows_of_step_max(view), best + kMoreRows);
    Cycles least = cycles(best);
    for (std::int64_t rows = best + 1; rows <= most; ++rows) {
      const Cycles found = cycles(rows);
      if (found * 64 >= least * 63) continue;  // not worth a longer wait for the first rows
      least = found;
      best = rows;
    }
    // Many more where it takes many pixels of a row at once.
    const std::int64_t all = rows_of_step_max(view);
    for (std::int64_t rows = plain.rows_per_step * 2; rows < 2 * all; rows *= 2) {
      const Cycles found = cycles(std::min(rows, all));
      if (found * 8 >= least * 7) continue;
      least = found;
      best = std::min(rows, all);
    }
    return bands_of(view, best);
  }

  // Many rows more where the planar engine then reads clearly fewer rows again for its window.
  Bands bands_of_window(const StorageView& view, const isa::TaskConfig& task) const {
    const Bands plain = bands_of(view);
    const std::int64_t all = rows_of_step_max(view);
    const auto step = [&](std::int64_t first, std::int64_t last) {
      if (first == last) return Cycles{0};
      return isa::planar_cycles(inputs_.chip.planar, isa::planar_work(task, {first, last}));
    };
    const auto cycles = [&](std::int64_t rows) {
      const std::int64_t whole = view.rows() / rows, middle = whole / 2 * rows;
      return whole * step(middle, middle + rows) + step(whole * rows, view.rows());
    };
    std::int64_t best = plain.rows_per_step;
    Cycles least = cycles(best);
    for (std::int64_t rows = best * 2; rows < 2 * all; rows *= 2) {
      const Cycles found = cycles(std::min(rows, all));
      if (found * 8 >= least * 7) break;
      least = found;
      best = std::min(rows, all);
    }
    return bands_of(view, best);
  }

  MappedSurface surface(const PieceOperand& operand, const StorageView& view) {
    const auto block = static_cast<std::size_t>(operand.block);
    auto mapped = plan_.buffer_layouts[block].map(view);
    TESSERA_CHECK(mapped.has_value(), "'{}' has no surface", plan_.buffer_blocks[block].name);
    mapped->surface.offset += static_cast<std::uint32_t>(plan_.buffer_blocks[block].offset);
    touch_block(operand.block);
    return *mapped;
  }

  // `view` in DRAM, beside its surface in the buffer.
  TransferTask transfer(const StorageView& view, const MappedSurface& mapped) {
    const std::int64_t element = format_bytes(storage(view.storage).format);
    TransferTask task;
    task.buffer = mapped.surface;
    task.channel_first = static_cast<std::uint32_t>(mapped.channel_first);
    task.channel_count = static_cast<std::uint32_t>(view.channels());
    const StorageView in_dram = orders_.in_dram(view);
    for (std::size_t i = 0; i < 4; ++i) task.dram.strides[i] = in_dram.strides[i] * element;
    task.dram.address = addresses_[view.storage];
    task.dram.address.offset += static_cast<std::uint64_t>(in_dram.offset * element);
    touch_home(view.storage);
    return task;
  }

  void emit_load(const Piece& piece, const PieceOperand& input) {
    const StorageView view = without_broadcast(input.view);
    const TransferTask task = transfer(view, surface(input, view));
    add(piece, EngineKind::kLoad, bands_of(view), task);
  }

  // A load whose buffer side is another storage's view.
  void emit_move(const Piece& piece, const PieceMove& move) {
    const TransferTask task =
        transfer(move.from, surface({.view = {}, .block = move.block}, move.to));
    add(piece, EngineKind::kLoad, bands_of(move.to), task);
  }

  void emit_store(const Piece& piece, const StorageView& view) {
    const TransferTask task = transfer(view, surface(piece.output, view));
    add(piece, EngineKind::kStore, bands_of(view), task);
  }

  // From the block as it was loaded to another view of DRAM.
  void emit_passing_store(const Piece& piece) {
    if (!piece.output.transfer) return;
    const StorageView& view = piece.output.view;
    const TransferTask task = transfer(view, surface(piece.inputs[0], piece.inputs[0].view));
    add(piece, EngineKind::kStore, bands_of(view), task);
  }

  void emit_copy(const Piece& piece, const PlannedCopy& copy) {
    const Format format = storage(copy.destination).format;
    isa::TaskDescriptor made = copy_task(copy, format);
    auto& task = std::get<CopyTask>(made.config);
    const auto address = [&](StorageIndex index, std::int64_t elements) {
      isa::DramAddress place = addresses_[index];
      place.offset += static_cast<std::uint64_t>(elements * format_bytes(format));
      touch_home(index);
      return place;
    };
    task.destination = address(copy.destination, copy.to.offset);
    if (!copy.fill) task.source = address(copy.source, copy.from.offset);
    add(piece, made.engine, made.bands, std::move(task));
  }

  // The slice's offset in kernel memory, fetched if it is not there.
  std::int64_t emit_kernel(const Piece& piece, const KernelSlice& slice) {
    if (slice.bytes_per_partition == 0) return 0;
    const StoredKernel kernel{slice.weights_offset, slice.product.image.rows,
                              slice.bytes_per_partition, slice.stream};
    if (const auto offset = kernel_memory_.find(kernel)) return *offset;
    const std::int64_t offset = kernel_memory_.put(kernel);
    KernelTask task;
    task.source = {isa::BaseIndex::kWeights, static_cast<std::uint64_t>(slice.weights_offset)};
    task.stream = slice.stream;
    if (!task.stream.compressed()) {
      task.dram_pitch = static_cast<std::uint64_t>(slice.bytes_per_partition);
    }
    task.partitions = static_cast<std::uint32_t>(slice.product.image.rows);
    task.bytes_per_partition = static_cast<std::uint32_t>(slice.bytes_per_partition);
    task.kernel_offset = static_cast<std::uint32_t>(offset);
    add(piece, EngineKind::kKernel, {1, 1, 1}, task);
    return offset;
  }

  // The kernel of a segment's first product before much more data, behind which it would come last, and
  // the array wait for it.
  void emit_first_kernel(PieceIndex first, const Table<LayerIndex, std::int32_t>& segments) {
    constexpr std::int64_t kMuchMore = 8;
    const auto segment = segments[plan_.pieces[first].layer];
    std::int64_t loaded = 0;
    for (PieceIndex i = first; i < std::ssize(plan_.pieces); ++i) {
      const Piece& piece = plan_.pieces[i];
      if (segments[piece.layer] != segment) return;
      const auto count = [&](const StorageView& view) {
        if (plan_.homes[view.storage] >= 0) return;  // made before
        loaded = std::max(loaded, storage(view.storage).bytes());
      };
      for (const PieceMove& move : piece.moves) count(move.from);
      for (const PieceOperand& input : piece.inputs) {
        if (input.transfer) count(input.view);
      }
      if (piece.slice < 0 || piece.inputs.empty()) continue;
      const KernelSlice& slice = layer_of(piece).slices[piece.slice];
      const std::int64_t bytes = slice.bytes_per_partition * slice.product.image.rows;
      if (loaded >= kMuchMore * bytes) emit_kernel(piece, slice);
      return;
    }
  }

  void emit_neural(const Piece& piece, const PlannedLayer& layer) {
    const KernelSlice& slice = layer.slices[piece.slice];
    const std::int64_t kernel = emit_kernel(piece, slice);
    NeuralTask task;
    task.product = slice.product;
    task.product.pad_top += piece.inputs[0].row_first * slice.product.input_dilation_h -
                            piece.output.row_first * slice.product.stride_h;
    task.product.pad_left += piece.inputs[0].column_first * slice.product.input_dilation_w -
                             piece.output.column_first * slice.product.stride_w;
    const MappedSurface moving = surface(piece.inputs[0], piece.inputs[0].view);
    task.moving = moving.surface;
    task.moving_channel_first = static_cast<std::uint32_t>(
        moving.channel_first + slice.moving_channel_first - piece.inputs[0].channel_first);
    const MappedSurface output = surface(piece.output, piece.output.view);
    task.output = output.surface;
    task.output_channel_first = static_cast<std::uint32_t>(output.channel_first);
    task.dynamic = layer.dynamic;
    if (layer.dynamic) {
      const MappedSurface stationary = surface(piece.inputs[1], piece.inputs[1].view);
      task.stationary = stationary.surface;
      task.stationary_channel_first = static_cast<std::uint32_t>(stationary.channel_first);
    }
    const auto at = [&](std::int64_t offset) {
      return static_cast<std::uint32_t>(kernel + offset);
    };
    task.kernel_offset = at(0);
    task.bias_offset = at(slice.bias_offset);
    task.multiplier_offset = at(slice.multiplier_offset);
    task.multiplier_count = static_cast<std::uint32_t>(slice.multiplier_count);
    task.zero_point_offset = at(slice.zero_point_offset);
    task.zero_point_count = static_cast<std::uint32_t>(slice.zero_point_count);
    if (layer.on_lanes) {
      const Bands bands = bands_of_window(piece.output.view, task);
      add(piece, EngineKind::kPlanar, bands, std::move(task));
      return;
    }
    task.psum = {.keeps = slice.keeps, .continues = slice.continues};
    if (slice.keeps) name_extents(slice, task.output);
    const Bands bands = bands_of(piece.output.view, task);
    TaskDescriptor& added = add(piece, EngineKind::kNeural, bands, std::move(task));
    if (slice.keeps || slice.continues) place_sums(added);
  }

  // A part that keeps its sums writes nothing, whatever its output's format would be.
  static void name_extents(const KernelSlice& slice, BufferSurface& output) {
    output.format = slice.product.output_format;
    output.offset = output.block_pitch = output.row_pitch = output.column_pitch = 0;
  }

  // Sums behind each other take turns where PSUM holds two of them, so that one is made while results
  // of the one before leave.
  void place_sums(TaskDescriptor& task) {
    auto& product = std::get<NeuralTask>(task.config);
    if (!product.psum.continues) {
      const std::int64_t entries = isa::psum_layout(task, inputs_.chip).last();
      const bool room = sums_last_ + entries <= isa::psum_entries(inputs_.chip);
      sums_first_ = room ? sums_last_ : 0;
      sums_last_ = sums_first_ + entries;
    }
    product.psum.first = static_cast<std::uint32_t>(sums_first_);
  }

  void emit_transposition(const Piece& piece, const PlannedLayer& layer) {
    const MappedSurface from = surface(piece.inputs[0], piece.inputs[0].view);
    const MappedSurface to = surface(piece.output, piece.output.view);
    const Bands bands = bands_of(piece.output.view);
    if (layer.way == TranspositionWay::kPlanar) {
      PlanarTask task;
      task.mode = isa::PlanarMode::kTranspose;
      task.inputs[0] = from.surface;
      task.output = to.surface;
      add(piece, EngineKind::kPlanar, bands, task);
      return;
    }
    NeuralTask task;
    task.transpose = true;
    KernelImageShape& blocks = task.product.image;
    blocks.channels = blocks.output_channels = inputs_.chip.state_buffer.partitions;
    blocks.rows = inputs_.chip.neural.rows;
    blocks.columns = inputs_.chip.neural.columns;
    task.moving = from.surface;
    task.moving_channel_first = static_cast<std::uint32_t>(from.channel_first);
    task.output = to.surface;
    task.output_channel_first = static_cast<std::uint32_t>(to.channel_first);
    add(piece, EngineKind::kNeural, bands, std::move(task));
  }

  void emit_planar(const Piece& piece, const PlannedLayer& layer) {
    PlanarTask task = layer.planar;
    if (task.mode == isa::PlanarMode::kPooling) {
      const PieceOperand& input = piece.inputs[0];
      task.pool = pool_part(task.pool, piece.part);
      task.pool.pad_top += input.row_first - piece.output.row_first * task.pool.stride_h;
      task.pool.pad_left += input.column_first - piece.output.column_first * task.pool.stride_w;
      if (input.row_first + input.view.rows() < layer.inputs[0].rows()) task.pool.pad_bottom = 0;
      if (input.column_first + input.view.columns() < layer.inputs[0].columns()) {
        task.pool.pad_right = 0;
      }
    }
    task.continues = piece.part.continues;
    task.keeps = piece.part.keeps;
    if (task.in_parts()) {
      const auto block = static_cast<std::size_t>(piece.part.block);
      task.accumulator_offset = static_cast<std::uint32_t>(plan_.buffer_blocks[block].offset);
      touch_block(piece.part.block);
    }
    for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
      task.inputs[i] = surface(piece.inputs[i], piece.inputs[i].view).surface;
    }
    const MappedSurface output = surface(piece.output, piece.output.view);
    task.output = output.surface;
    task.output.channels = static_cast<std::uint32_t>(piece.output.view.channels());
    task.output_channel_first = static_cast<std::uint32_t>(output.channel_first);
    const Bands bands = task.mode == isa::PlanarMode::kPooling
                            ? bands_of_window(piece.output.view, task)
                            : bands_of(piece.output.view);
    add(piece, EngineKind::kPlanar, bands, std::move(task));
  }

  const PlanInputs& inputs_;
  const Plan& plan_;
  const Addresses& addresses_;
  const DramOrders& orders_;
  const StepPixels& steps_;
  std::int64_t step_pixels_ = 1;  // of the piece at hand
  KernelMemory kernel_memory_;
  // Of the last product in parts: its entries of PSUM, and whether they wait for another part.
  std::int64_t sums_first_ = 0, sums_last_ = 0;
  bool sums_kept_ = false;
  EmittedTasks result_;
};

}  // namespace

std::int64_t step_pixels(const PlanInputs& inputs) {
  const std::int64_t pixels = inputs.options.step_pixels;
  return pixels != 0 ? pixels : inputs.chip.neural.psum_bank_columns;
}

EmittedTasks emit_tasks(const PlanInputs& inputs, const Plan& plan, const Addresses& addresses,
                        const DramOrders& orders, const StepPixels& steps) {
  return Emitter(inputs, plan, addresses, orders, steps).run();
}

}  // namespace tessera::compile
