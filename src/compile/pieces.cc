#include "compile/pieces.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "program/accesses.h"

namespace tessera::compile {
namespace {

enum Axis : std::size_t { kImages, kChannels, kRows, kColumns };

// Images, output rows and channels a piece.
struct Grain {
  std::int64_t images = 1, rows = 1, channels = 1;
};

class Cutter {
 public:
  Cutter(const PlanInputs& inputs, std::int32_t index, const LayerOperands& operands)
      : inputs_(inputs),
        index_(index),
        layer_(inputs.layers[static_cast<std::size_t>(index)]),
        operands_(operands) {}

  // The coarsest grain whose pieces take at most `room` bytes a partition; rows of 0 if none does.
  Grain choose(std::int64_t room) const {
    Grain grain = whole();
    if (operands_.by_image) grain.images = 1;
    if (bytes(grain) <= room) return grain;
    grain.images = 1;
    if (bytes(grain) <= room) return grain;
    if (rows_can_be_cut()) {
      for (std::int64_t pieces = 2; pieces < 2 * layer_.output.rows(); ++pieces) {
        grain.rows = std::max<std::int64_t>(1, ceil_div(layer_.output.rows(), pieces));
        if (bytes(grain) <= room) return grain;
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
    return {1, 0, 0};
  }

  std::int64_t bytes_of_smallest() const {
    Grain grain = whole();
    grain.images = 1;
    if (rows_can_be_cut()) grain.rows = 1;
    if (layer_.kind == LayerKind::kPlanar) {
      grain.channels = std::min<std::int64_t>(grain.channels, inputs_.chip.state_buffer.partitions);
    }
    return bytes(grain);
  }

  Piece rows_of_first_image(RowRange rows) const {
    std::vector<Piece> pieces;
    add_pieces(part({0, 1}, rows, {0, layer_.output.channels()}), pieces);
    return pieces.front();
  }

  bool rows_can_be_cut() const {
    return layer_.kind == LayerKind::kNeural ||
           layer_.planar.mode != program::PlanarMode::kReduction || !layer_.planar.reduce.over_rows;
  }

  std::vector<Piece> cut(const Grain& grain) const {
    std::vector<Piece> pieces;
    const StorageView& out = layer_.output;
    for (std::int64_t n = 0; n < out.images(); n += grain.images) {
      for (std::int64_t r = 0; r < out.rows(); r += grain.rows) {
        const RowRange rows{r, std::min(out.rows(), r + grain.rows)};
        for (std::int64_t c = 0; c < out.channels(); c += grain.channels) {
          const std::int64_t channels = std::min(grain.channels, out.channels() - c);
          add_pieces(part({n, std::min(grain.images, out.images() - n)}, rows, {c, channels}),
                     pieces);
        }
      }
    }
    return pieces;
  }

 private:
  struct Span {
    std::int64_t first = 0, count = 1;
  };

  Grain whole() const {
    return {layer_.output.images(), layer_.output.rows(), layer_.output.channels()};
  }

  Piece part(Span images, RowRange rows, Span channels) const {
    Piece piece;
    piece.layer = index_;
    const bool planar = layer_.kind == LayerKind::kPlanar;
    const auto cut_view = [&](const StorageView& view, RowRange r) {
      StorageView result = view.part(kImages, images.first, images.count);
      if (planar) result = result.part(kChannels, channels.first, channels.count);
      return result.part(kRows, r.first, r.last - r.first);
    };
    for (std::size_t i = 0; i < layer_.inputs.size(); ++i) {
      RowRange read = input_rows_read(layer_, i, rows);
      // Images of a resident block lie all their rows apart, the unread ones too.
      if (images.count > 1 && operands_.input_resident[i]) read = {0, layer_.inputs[i].rows()};
      piece.inputs.push_back({.view = cut_view(layer_.inputs[i], read), .row_first = read.first});
    }
    piece.output = {.view = cut_view(layer_.output, rows), .row_first = rows.first};
    return piece;
  }

  // One a kernel slice.
  void add_pieces(const Piece& piece, std::vector<Piece>& pieces) const {
    if (layer_.kind != LayerKind::kNeural) {
      pieces.push_back(piece);
      return;
    }
    for (std::size_t s = 0; s < layer_.slices.size(); ++s) {
      const KernelSlice& slice = layer_.slices[s];
      Piece sliced = piece;
      sliced.slice = static_cast<std::int32_t>(s);
      sliced.output.view =
          piece.output.view.part(kChannels, slice.output_channel_first, slice.output_channels);
      pieces.push_back(std::move(sliced));
    }
  }

  // The largest piece of this grain; the middle rows have the most halo.
  std::int64_t bytes(const Grain& grain) const {
    const std::int64_t out_rows = layer_.output.rows();
    const std::int64_t middle =
        std::min(out_rows - grain.rows, out_rows / 2 / grain.rows * grain.rows);
    std::int64_t most = 0;
    for (const std::int64_t first : {std::int64_t{0}, middle, out_rows - grain.rows}) {
      const Piece piece = part({0, grain.images}, {first, first + grain.rows}, {0, grain.channels});
      std::int64_t sum = 0;
      for (std::size_t i = 0; i < piece.inputs.size(); ++i) {
        if (!operands_.input_resident[i]) sum += operand_bytes(piece.inputs[i].view);
      }
      if (!operands_.output_resident) sum += output_bytes(piece.output.view);
      most = std::max(most, sum);
    }
    return most;
  }

  std::int64_t output_bytes(const StorageView& view) const {
    std::int64_t channels = layer_.kind == LayerKind::kNeural ? 0 : view.channels();
    for (const KernelSlice& slice : layer_.slices)
      channels = std::max(channels, slice.output_channels);
    return operand_bytes(view.part(kChannels, 0, channels));
  }

  std::int64_t operand_bytes(const StorageView& view) const {
    const Storage& storage = inputs_.storages.storages[static_cast<std::size_t>(view.storage)];
    return round_up(view_bytes(view, storage.format, inputs_.chip.state_buffer.partitions), 64);
  }

  const PlanInputs& inputs_;
  std::int32_t index_;
  const Layer& layer_;
  const LayerOperands& operands_;
};

}  // namespace

RowRange input_rows_read(const Layer& layer, std::size_t input, RowRange rows) {
  const std::int64_t extent = layer.inputs[input].rows();
  RowRange read = rows;
  if (layer.kind == LayerKind::kNeural) {
    read = input == 0 ? program::product_rows_read(layer.slices[0].product, extent, rows)
                      : RowRange{0, extent};
  } else if (layer.planar.mode == program::PlanarMode::kPooling) {
    read = program::pool_rows_read(layer.planar.pool, extent, rows);
  } else if (layer.planar.mode == program::PlanarMode::kReduction &&
             layer.planar.reduce.over_rows) {
    read = {0, extent};
  }
  if (read.last <= read.first) {  // a window wholly in the padding: take a row all the same
    const std::int64_t first = std::clamp<std::int64_t>(read.first, 0, extent - 1);
    read = {first, first + 1};
  }
  return read;
}

Piece piece_of_rows(const PlanInputs& inputs, std::int32_t layer, RowRange rows) {
  const LayerOperands none;
  return Cutter(inputs, layer, none).rows_of_first_image(rows);
}

bool cuts_by_rows(const Layer& layer) {
  if (layer.kind == LayerKind::kTranspose) return false;
  if (layer.output.images() != 1 || layer.dynamic || layer.slices.size() > 1) return false;
  if (layer.kind == LayerKind::kNeural) return true;
  return layer.kind == LayerKind::kPlanar &&
         (layer.planar.mode != program::PlanarMode::kReduction || !layer.planar.reduce.over_rows);
}

namespace {

// The parts of a transposition, each cut until it fits.
Result<std::vector<Piece>> cut_parts(const PlanInputs& inputs, std::int32_t index,
                                     const LayerOperands& operands, PieceRoom room) {
  const Layer& layer = inputs.layers[static_cast<std::size_t>(index)];
  PartRoom limits{
      .format = inputs.storages.storages[static_cast<std::size_t>(layer.output.storage)].format,
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
  if (inputs.layers[static_cast<std::size_t>(layer)].kind == LayerKind::kTranspose) {
    return cut_parts(inputs, layer, operands, room);
  }
  const Cutter cutter(inputs, layer, operands);
  Grain grain = cutter.choose(room.wanted);
  const std::int64_t budget = inputs.options.tile_budget_bytes;
  if (grain.rows == 0 && budget > 0 && cutter.bytes_of_smallest() > budget) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("layer '{}': one output row with its input takes {} bytes of each "
                             "state buffer partition, the tile budget is {}; give a tile budget "
                             ">= {}, or 0 to let the compiler choose",
                             inputs.layers[static_cast<std::size_t>(layer)].name,
                             cutter.bytes_of_smallest(), budget, cutter.bytes_of_smallest())};
  }
  if (grain.rows == 0) grain = cutter.choose(room.allowed);
  if (grain.rows == 0) {
    const std::int64_t needed = cutter.bytes_of_smallest();
    return Error{ErrorCode::kDoesNotFit,
                 fmt::format("layer '{}': one output row with its input takes {} bytes of each "
                             "state buffer partition, {} are available; use a chip configuration "
                             "with state_buffer.bytes_per_partition >= {}",
                             inputs.layers[static_cast<std::size_t>(layer)].name, needed,
                             room.allowed, needed)};
  }
  return cutter.cut(grain);
}

}  // namespace tessera::compile
