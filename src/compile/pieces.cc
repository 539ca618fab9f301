#include "compile/pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "arith/wide_sum.h"
#include "base/check.h"
#include "base/quantity.h"
#include "compile/sum_parts.h"
#include "compile/surface_conventions.h"
#include "isa/psum.h"
#include "isa/rows_read.h"

namespace tessera::compile {
namespace {

// Images, output rows, channels and output columns a piece; and of what a reduction over rows or
// columns takes in, or of a window that is wider than the line buffer, rows and columns a part.
struct Grain {
  std::int64_t images = 1, rows = 1, channels = 1, columns = 1;
  std::int64_t part_rows = 0, part_columns = 0;  // 0: all of it, in one part
  bool in_parts() const { return part_rows > 0; }
};

struct Span {
  std::int64_t first = 0, count = 1;
};

// What a piece makes: a box of the output, and with which part of its elements.
struct Work {
  Span images;
  RowRange rows;
  Span channels;
  RowRange columns;
  PiecePart part;
  RowRange part_rows, part_columns;  // of the reduction's input or of the window; empty: all
};

bool is_reduction(const PlannedLayer& layer) {
  return layer.kind == LayerKind::kPlanar && layer.planar.mode == isa::PlanarMode::kReduction;
}

// A window wholly in the padding reads something all the same.
RowRange at_least_one(RowRange read, std::int64_t extent) {
  if (read.last > read.first) return read;
  const std::int64_t first = std::clamp<std::int64_t>(read.first, 0, extent - 1);
  return {first, first + 1};
}

std::int64_t length(const RowRange& range) { return range.last - range.first; }

// Tries coarser pieces first: a linear search that gets faster.
std::int64_t next_count(std::int64_t pieces) {
  return pieces + std::max<std::int64_t>(1, pieces / 8);
}

class Cutter {
 public:
  Cutter(const PlanInputs& inputs, std::int32_t index, const LayerOperands& operands)
      : Cutter(inputs, index, operands, whole_box(inputs.layers[index])) {}
  Cutter(const PlanInputs& inputs, std::int32_t index, const LayerOperands& operands,
         const LayerBox& box)
      : inputs_(inputs),
        index_(index),
        layer_(inputs.layers[index]),
        operands_(operands),
        box_(box) {}

  // The coarsest grain whose pieces take at most `room` bytes per partition, and leave no more sums in
  // PSUM than it has entries; 0 rows if none.
  Grain choose(std::int64_t room) const {
    Grain grain = whole();
    if (operands_.by_image) grain.images = 1;
    if (fits(grain, room)) return grain;
    grain.images = 1;
    if (fits(grain, room)) return grain;
    if (rows_can_be_cut()) {
      for (std::int64_t pieces = 2; pieces < 2 * length(box_.rows); ++pieces) {
        const std::int64_t rows = ceil_div(length(box_.rows), pieces);
        if (rows == grain.rows) continue;  // as before
        grain.rows = rows;
        if (fits(grain, room)) return grain;
        if (grain.rows == 1) break;
      }
    }
    if (layer_.kind == LayerKind::kPlanar) {
      const std::int64_t partitions = inputs_.chip.state_buffer.partitions;
      for (std::int64_t blocks = ceil_div(grain.channels, partitions) - 1; blocks > 0; --blocks) {
        grain.channels = blocks * partitions;
        if (bytes(grain) <= room) return grain;
      }
    }
    if (is_reduction(layer_)) return choose_parts(room, grain);
    const std::int64_t columns = length(box_.columns);
    for (std::int64_t pieces = 2; columns_can_be_cut() && grain.columns > 1;
         pieces = next_count(pieces)) {
      grain.columns = ceil_div(columns, pieces);
      if (fits(grain, room)) return grain;
    }
    return {1, 0, 0, 0};
  }

  std::int64_t bytes_of_smallest() const {
    Grain grain = whole();
    grain.images = 1;
    if (rows_can_be_cut()) grain.rows = 1;
    if (layer_.kind == LayerKind::kPlanar) {
      grain.channels = std::min<std::int64_t>(grain.channels, inputs_.chip.state_buffer.partitions);
    }
    if (columns_can_be_cut()) grain.columns = 1;
    if (is_reduction(layer_)) grain.part_rows = grain.part_columns = 1;
    return bytes(grain);
  }

  Piece rows_of_first_image(RowRange rows) const {
    std::vector<Piece> pieces;
    add_pieces(piece_of({.images = {0, 1},
                         .rows = rows,
                         .channels = {0, layer_.output.channels()},
                         .columns = {0, layer_.output.columns()},
                         .part = {},
                         .part_rows = {},
                         .part_columns = {}}),
               pieces);
    return pieces.front();
  }

  std::vector<Piece> cut(const Grain& grain) const {
    std::vector<Piece> pieces;
    const LayerBox& box = box_;
    for (std::int64_t n = box.images.first; n < box.images.last; n += grain.images) {
      for (std::int64_t r = box.rows.first; r < box.rows.last; r += grain.rows) {
        for (std::int64_t x = box.columns.first; x < box.columns.last; x += grain.columns) {
          for (std::int64_t c = box.channels.first; c < box.channels.last; c += grain.channels) {
            Work work;
            work.images = {n, std::min(grain.images, box.images.last - n)};
            work.rows = {r, std::min(box.rows.last, r + grain.rows)};
            work.columns = {x, std::min(box.columns.last, x + grain.columns)};
            work.channels = {c, std::min(grain.channels, box.channels.last - c)};
            for (const Work& part : parts_of(work, grain)) add_pieces(piece_of(part), pieces);
          }
        }
      }
    }
    return pieces;
  }

 private:
  Grain whole() const {
    Grain grain{length(box_.images), length(box_.rows), length(box_.channels),
                length(box_.columns)};
    if (!layer_.wide_window) return grain;
    // As much of the window as the line buffer holds. Sums of floats that are not exact take rows
    // one by one where a row comes in parts, to keep their order.
    const PoolConfig& pool = layer_.planar.pool;
    const PlanarEngineConfig& limits = inputs_.chip.planar;
    const auto most = [](std::int64_t limit, std::int64_t dilation) {
      return (limit - 1) / dilation + 1;
    };
    grain.part_columns = std::min(pool.window_w, most(limits.window_columns_max, pool.dilation_w));
    grain.part_rows = std::min(pool.window_h, most(limits.window_rows_max, pool.dilation_h));
    const Format format = storage_of(layer_.inputs[0]).format;
    const bool ordered = pool.function == PoolFunction::kAverage &&
                         (format == Format::kF32 || format == Format::kBf16);
    if (ordered && grain.part_columns < pool.window_w) grain.part_rows = 1;
    return grain;
  }

  bool rows_can_be_cut() const {
    return layer_.kind == LayerKind::kNeural || !is_reduction(layer_) ||
           !layer_.planar.reduce.over_rows;
  }
  bool columns_can_be_cut() const { return !layer_.dynamic && !is_reduction(layer_); }

  // Reductions take rows in parts, then a row.
  Grain choose_parts(std::int64_t room, Grain grain) const {
    const StorageView& in = layer_.inputs[0];
    grain.part_columns = in.columns();
    const std::int64_t rows = layer_.planar.reduce.over_rows ? in.rows() : 1;
    grain.part_rows = rows;
    for (std::int64_t pieces = 2; grain.part_rows > 1; pieces = next_count(pieces)) {
      grain.part_rows = ceil_div(rows, pieces);
      if (bytes(grain) <= room) return grain;
    }
    for (std::int64_t pieces = 2; grain.part_columns > 1; pieces = next_count(pieces)) {
      grain.part_columns = ceil_div(in.columns(), pieces);
      if (bytes(grain) <= room) return grain;
    }
    return {1, 0, 0, 0};
  }

  // The parts that make the results of `work`, in the order of the elements.
  std::vector<Work> parts_of(const Work& work, const Grain& grain) const {
    if (!grain.in_parts()) return {work};
    std::vector<Work> parts;
    const PoolConfig& pool = layer_.planar.pool;
    const StorageView& in = layer_.inputs[0];
    RowRange rows{0, pool.window_h}, columns{0, pool.window_w};
    if (is_reduction(layer_)) {
      rows = layer_.planar.reduce.over_rows ? RowRange{0, in.rows()} : work.rows;
      columns = {0, in.columns()};
    }
    const std::int64_t height = is_reduction(layer_) && !layer_.planar.reduce.over_rows
                                    ? rows.last - rows.first
                                    : grain.part_rows;
    for (std::int64_t r = rows.first; r < rows.last; r += height) {
      for (std::int64_t c = columns.first; c < columns.last; c += grain.part_columns) {
        Work part = work;
        part.part_rows = {r, std::min(rows.last, r + height)};
        part.part_columns = {c, std::min(columns.last, c + grain.part_columns)};
        part.part.continues = !parts.empty();
        part.part.keeps = true;
        parts.push_back(part);
      }
    }
    parts.back().part.keeps = false;
    if (layer_.wide_window) {
      for (Work& part : parts) {
        part.part.window_row = part.part_rows.first;
        part.part.window_rows = part.part_rows.last - part.part_rows.first;
        part.part.window_column = part.part_columns.first;
        part.part.window_columns = part.part_columns.last - part.part_columns.first;
      }
    }
    return parts;
  }

  Piece piece_of(const Work& work) const {
    Piece piece;
    piece.layer = index_;
    piece.part = work.part;
    const bool planar = layer_.kind == LayerKind::kPlanar;
    const auto cut_view = [&](const StorageView& view, RowRange rows, RowRange columns) {
      StorageView result = view.part(kImages, work.images.first, work.images.count);
      if (planar) result = result.part(kChannels, work.channels.first, work.channels.count);
      result = result.part(kRows, rows.first, rows.last - rows.first);
      if (columns.last - columns.first == view.columns()) return result;
      return result.part(kColumns, columns.first, columns.last - columns.first);
    };
    for (std::size_t i = 0; i < layer_.inputs.size(); ++i) {
      const StorageView& view = layer_.inputs[i];
      RowRange rows, columns;
      if (is_reduction(layer_) && work.part_rows.last > 0) {
        rows = work.part_rows;
        columns = work.part_columns;
      } else if (layer_.wide_window) {
        const PoolConfig pool = pool_part(layer_.planar.pool, work.part);
        rows = at_least_one(isa::pool_rows_read(pool, view.rows(), work.rows), view.rows());
        columns = at_least_one(isa::pool_columns_read(pool, view.columns(), work.columns),
                               view.columns());
      } else {
        rows = input_rows_read(layer_, i, work.rows);
        columns = input_columns_read(i, work.columns);
      }
      // Images of a resident block lie all their rows apart, the unread ones too.
      if (work.images.count > 1 && operands_.input_resident[i] && !operands_.in_part) {
        rows = {0, view.rows()};
      }
      piece.inputs.push_back({.view = cut_view(view, rows, columns),
                              .row_first = rows.first,
                              .column_first = columns.first});
    }
    if (layer_.kind == LayerKind::kNeural && !layer_.dynamic) take_channels_read(piece.inputs[0]);
    piece.output = {.view = cut_view(layer_.output, work.rows, work.columns),
                    .row_first = work.rows.first,
                    .column_first = work.columns.first,
                    .image_first = work.images.first,
                    .channel_first = planar ? work.channels.first : 0};
    return piece;
  }

  bool box_has(const KernelSlice& slice) const {
    return slice.output_channel_first >= box_.channels.first &&
           slice.output_channel_first < box_.channels.last;
  }

  // Some groups of a product read their own channels alone.
  void take_channels_read(PieceOperand& moving) const {
    if (length(box_.channels) == layer_.output.channels()) return;
    RowRange read{moving.view.channels(), 0};
    for (const KernelSlice& slice : layer_.slices) {
      if (!box_has(slice)) continue;
      const KernelImageShape& shape = slice.product.image;
      read.first = std::min(read.first, slice.moving_channel_first);
      read.last = std::max(read.last, slice.moving_channel_first + shape.groups * shape.channels);
    }
    if (read.last <= read.first) return;
    moving.view = moving.view.part(kChannels, read.first, length(read));
    moving.channel_first = read.first;
  }

  RowRange input_columns_read(std::size_t input, RowRange columns) const {
    const std::int64_t extent = layer_.inputs[input].columns();
    const RowRange all{0, extent};
    if (columns.last - columns.first == layer_.output.columns()) return all;
    if (layer_.kind == LayerKind::kNeural) {
      return at_least_one(isa::product_columns_read(layer_.slices[0].product, extent, columns),
                          extent);
    }
    if (layer_.planar.mode == isa::PlanarMode::kPooling) {
      return at_least_one(isa::pool_columns_read(layer_.planar.pool, extent, columns), extent);
    }
    return columns;
  }

  bool fits(const Grain& grain, std::int64_t room) const {
    return bytes(grain) <= room && sums_fit(grain);
  }

  // What parts of sums leave in PSUM.
  bool sums_fit(const Grain& grain) const {
    const ChipConfig& chip = inputs_.chip;
    std::int64_t entries = 0;  // of a pixel
    for (const KernelSlice& slice : layer_.slices) {
      if (!slice.keeps || !box_has(slice)) continue;
      entries = std::max(entries, psum_entries_of_pixel(slice.output_channels, chip));
    }
    return entries * grain.images * grain.rows * grain.columns <= isa::psum_entries(chip);
  }

  // One a kernel slice.
  void add_pieces(const Piece& piece, std::vector<Piece>& pieces) const {
    if (layer_.kind != LayerKind::kNeural) {
      pieces.push_back(piece);
      return;
    }
    for (std::size_t s = 0; s < layer_.slices.size(); ++s) {
      const KernelSlice& slice = layer_.slices[s];
      if (!box_has(slice)) continue;
      Piece sliced = piece;
      sliced.slice = static_cast<std::int32_t>(s);
      sliced.output.view =
          piece.output.view.part(kChannels, slice.output_channel_first, slice.output_channels);
      sliced.output.channel_first = slice.output_channel_first;
      sliced.part.continues = slice.continues;
      sliced.part.keeps = slice.keeps;
      if (layer_.dynamic) {
        PieceOperand& stationary = sliced.inputs[1];
        stationary.view =
            stationary.view.part(kColumns, slice.output_channel_first, slice.output_channels)
                .part(kChannels, slice.moving_channel_first, slice.product.image.channels);
        stationary.channel_first = slice.moving_channel_first;
      }
      pieces.push_back(std::move(sliced));
    }
  }

  // The largest piece of this grain; the middle rows have the most halo.
  std::int64_t bytes(const Grain& grain) const {
    const auto places = [](const RowRange& range, std::int64_t each) {
      const std::int64_t extent = length(range);
      const std::int64_t middle = std::min(extent - each, extent / 2 / each * each);
      return std::vector<std::int64_t>{range.first, range.first + middle, range.last - each};
    };
    std::int64_t most = 0;
    for (const std::int64_t row : places(box_.rows, grain.rows)) {
      for (const std::int64_t column : places(box_.columns, grain.columns)) {
        Work work;
        work.images = {box_.images.first, grain.images};
        work.rows = {row, row + grain.rows};
        work.channels = {box_.channels.first, grain.channels};
        work.columns = {column, column + grain.columns};
        for (const Work& part : parts_of(work, grain)) {
          most = std::max(most, bytes(piece_of(part)));
          if (is_reduction(layer_)) break;  // the first part is the largest
        }
        if (grain.columns == length(box_.columns)) break;
      }
    }
    return most;
  }

  std::int64_t bytes(const Piece& piece) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
      if (operands_.input_resident[i]) continue;
      const StorageView& view = piece.inputs[i].view;
      const bool stationary = layer_.dynamic && i == 1;
      sum += operand_bytes(stationary ? largest_stationary(view) : view);
    }
    if (!operands_.output_resident) sum += output_bytes(piece.output.view);
    if (piece.part.one_of_several()) {
      sum += round_up(accumulator_bytes(piece, inputs_.chip.state_buffer.partitions), 64);
    }
    return sum;
  }

  // Output channels of the widest slice that the box has.
  std::int64_t widest_slice() const {
    std::int64_t channels = 0;
    for (const KernelSlice& slice : layer_.slices) {
      if (box_has(slice)) channels = std::max(channels, slice.output_channels);
    }
    return channels;
  }

  // What a slice takes of a stationary operand that is computed.
  StorageView largest_stationary(const StorageView& view) const {
    std::int64_t channels = 0;
    for (const KernelSlice& slice : layer_.slices) {
      if (box_has(slice)) channels = std::max(channels, slice.product.image.channels);
    }
    return view.part(kColumns, 0, widest_slice()).part(kChannels, 0, channels);
  }

  std::int64_t output_bytes(const StorageView& view) const {
    const bool sliced = layer_.kind == LayerKind::kNeural;
    const std::int64_t channels = sliced ? widest_slice() : view.channels();
    return operand_bytes(view.part(kChannels, 0, channels));
  }

  const Storage& storage_of(const StorageView& view) const {
    return inputs_.storages.storages[view.storage];
  }

  std::int64_t operand_bytes(const StorageView& view) const {
    return round_up(view_bytes(view, storage_of(view).format, inputs_.chip.state_buffer.partitions),
                    64);
  }

  const PlanInputs& inputs_;
  std::int32_t index_;
  const PlannedLayer& layer_;
  const LayerOperands& operands_;
  const LayerBox box_;
};

}  // namespace

PoolConfig pool_part(const PoolConfig& pool, const PiecePart& part) {
  if (part.window_rows == 0) return pool;
  PoolConfig result = pool;
  result.window_h = part.window_rows;
  result.window_w = part.window_columns;
  result.pad_top -= part.window_row * pool.dilation_h;
  result.pad_left -= part.window_column * pool.dilation_w;
  return result;
}

std::int64_t accumulator_bytes(const Piece& piece, std::int64_t partitions) {
  const StorageView& out = piece.output.view;
  return ceil_div(out.channels(), partitions) * out.images() * out.rows() * out.columns() *
         arith::ReduceAccumulator::kStoredBytes;
}

LayerOperands operands_in_dram(const PlanInputs& inputs, std::int32_t layer) {
  const PlannedLayer& of = inputs.layers[layer];
  LayerOperands operands;
  operands.by_image = of.dynamic;
  operands.input_resident.assign(of.inputs.size(), false);
  const auto check = [&](const StorageView& view) {
    const BufferLayout layout(view, inputs.storages.storages[view.storage].format,
                              inputs.chip.state_buffer.partitions);
    const Fit fit = fit_view(layout, view, Start::kFirstPartition);
    TESSERA_CHECK(fit != Fit::kNone, "layer '{}': an operand has no surface", of.name);
    operands.by_image = operands.by_image || fit == Fit::kByImage;
  };
  for (const StorageView& view : of.inputs) check(view);
  check(of.output);
  return operands;
}

LayerBox whole_box(const PlannedLayer& layer) {
  const StorageView& out = layer.output;
  return {{0, out.images()}, {0, out.rows()}, {0, out.channels()}, {0, out.columns()}};
}

RowRange input_rows_read(const PlannedLayer& layer, std::size_t input, RowRange rows) {
  const std::int64_t extent = layer.inputs[input].rows();
  RowRange read = rows;
  if (layer.kind == LayerKind::kNeural) {
    read = input == 0 ? isa::product_rows_read(layer.slices[0].product, extent, rows)
                      : RowRange{0, extent};
  } else if (layer.planar.mode == isa::PlanarMode::kPooling) {
    read = isa::pool_rows_read(layer.planar.pool, extent, rows);
  } else if (is_reduction(layer) && layer.planar.reduce.over_rows) {
    read = {0, extent};
  }
  return at_least_one(read, extent);
}

Piece piece_of_rows(const PlanInputs& inputs, std::int32_t layer, RowRange rows) {
  const LayerOperands none;
  return Cutter(inputs, layer, none).rows_of_first_image(rows);
}

bool cuts_by_rows(const PlannedLayer& layer) {
  if (layer.kind == LayerKind::kTranspose) return false;
  if (layer.output.images() != 1 || layer.dynamic || layer.slices.size() > 1) return false;
  if (layer.kind == LayerKind::kNeural) return true;
  return layer.kind == LayerKind::kPlanar && !layer.wide_window &&
         (!is_reduction(layer) || !layer.planar.reduce.over_rows);
}

namespace {

// The parts of a transposition, each cut until it fits.
Result<std::vector<Piece>> cut_parts(const PlanInputs& inputs, std::int32_t index,
                                     const LayerOperands& operands, PieceRoom room) {
  const PlannedLayer& layer = inputs.layers[index];
  PartRoom limits{.format = inputs.storages.storages[layer.output.storage].format,
                  .partitions = inputs.chip.state_buffer.partitions,
                  .room = room.wanted,
                  .from_resident = operands.input_resident[0],
                  .to_resident = operands.output_resident,
                  .exchanged = layer.way != TranspositionWay::kDma};
  std::vector<Piece> pieces;
  for (const TransposePart& part : layer.parts) {
    std::vector<TransposePart> cut;
    limits.room = room.wanted;
    bool fits = split_part(part, limits, cut);
    if (!fits) {
      cut.clear();
      limits.room = room.allowed;
      fits = split_part(part, limits, cut);
    }
    if (!fits) {
      const std::int64_t p = limits.partitions;
      const TransposePart block{part.from.part(0, 0, 1)
                                    .part(2, 0, 1)
                                    .part(1, 0, std::min(p, part.from.channels()))
                                    .part(3, 0, std::min(p, part.from.columns())),
                                part.to.part(0, 0, 1)
                                    .part(2, 0, 1)
                                    .part(1, 0, std::min(p, part.to.channels()))
                                    .part(3, 0, std::min(p, part.to.columns()))};
      const std::int64_t needed = part_bytes(block, limits);
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("layer '{}': a block of the transposition takes {} bytes of each "
                               "state buffer partition, {} are available; use a chip "
                               "configuration with state_buffer.bytes_per_partition >= {}",
                               layer.name, needed, room.allowed, needed)};
    }
    for (const TransposePart& each : cut) {
      Piece piece;
      piece.layer = index;
      piece.inputs.push_back({.view = each.from});
      piece.output.view = each.to;
      pieces.push_back(std::move(piece));
    }
  }
  return pieces;
}

}  // namespace

Result<std::vector<Piece>> cut_layer(const PlanInputs& inputs, std::int32_t layer,
                                     const LayerOperands& operands, PieceRoom room) {
  if (inputs.layers[layer].kind == LayerKind::kTranspose) {
    return cut_parts(inputs, layer, operands, room);
  }
  return cut_box(inputs, layer, whole_box(inputs.layers[layer]), operands, room);
}

Result<std::vector<Piece>> cut_box(const PlanInputs& inputs, std::int32_t layer,
                                   const LayerBox& box, const LayerOperands& operands,
                                   PieceRoom room) {
  const Cutter cutter(inputs, layer, operands, box);
  Grain grain = cutter.choose(room.wanted);
  const std::int64_t budget = inputs.options.tile_budget_bytes;
  if (grain.rows == 0 && budget > 0 && cutter.bytes_of_smallest() > budget) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("layer '{}': one result with what it is made of takes {} bytes of each "
                    "state buffer partition, the tile budget is {}; give a tile budget "
                    ">= {}, or 0 to let the compiler choose",
                    inputs.layers[layer].name, cutter.bytes_of_smallest(), budget,
                    cutter.bytes_of_smallest())};
  }
  if (grain.rows == 0) grain = cutter.choose(room.allowed);
  if (grain.rows == 0) {
    const std::int64_t needed = cutter.bytes_of_smallest();
    return Error{
        ErrorCode::kDoesNotFit,
        fmt::format("layer '{}': one result with what it is made of takes {} bytes of each "
                    "state buffer partition, {} are available; use a chip configuration "
                    "with state_buffer.bytes_per_partition >= {}",
                    inputs.layers[layer].name, needed, room.allowed, needed)};
  }
  return cutter.cut(grain);
}

}  // namespace tessera::compile
