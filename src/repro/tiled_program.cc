#include "repro/tiled_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "isa/psum.h"
#include "isa/task_list.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::Dependency;
using isa::EngineKind;
using isa::TaskId;

std::uint32_t word_of(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// Elements [first, first + count) of an axis.
struct Span {
  std::int64_t first = 0, count = 1;
  std::int64_t last() const { return first + count; }
};

// A loop over tiles.
template <typename Visit>
void for_tiles(std::int64_t total, std::int64_t tile, Visit visit) {
  for (std::int64_t first = 0; first < total; first += tile) {
    visit(Span{first, std::min(tile, total - first)});
  }
}

// The tiles of a sum: pixels (rows and columns of the output; a product has one row) and channels.
struct Block {
  Span rows, columns, outputs;
};

class Builder {
 public:
  Builder(const ChipConfig& chip, const TiledLayer& layer)
      : chip_(chip),
        layer_(layer),
        tasks_(chip),
        input_rows_(layer.convolution ? layer.total.p * layer.stride : 1),
        input_columns_(layer.convolution ? layer.total.q * layer.stride : layer.total.n),
        weights_at_(input_rows_ * input_columns_ * layer.total.c) {}

  Result<isa::Program> run() {
    load_multiplier();
    const LoopExtents& t = layer_.total;
    const LoopExtents& i = layer_.tile;
    if (layer_.convolution) {
      const std::int64_t rows = std::min(i.p, i.q), columns = std::max(i.p, i.q);
      for_tiles(t.n, 1, [&](Span) {
        for_tiles(t.p, rows, [&](Span p) {
          for_tiles(t.q, columns,
                    [&](Span q) { for_tiles(t.m, i.m, [&](Span m) { add_block({p, q, m}); }); });
        });
      });
    } else {
      for_tiles(t.n, i.n,
                [&](Span n) { for_tiles(t.m, i.m, [&](Span m) { add_block({{0, 1}, n, m}); }); });
    }
    TESSERA_RETURN_IF_ERROR(misfit_);
    isa::Program program =
        tasks_.finish(weights_at_ + t.r * t.s * t.c * t.m, output_rows() * output_columns() * t.m);
    program.inputs = {{.name = "input",
                       .format = Format::kI8,
                       .dims = {program.input_bytes},
                       .address = {BaseIndex::kInput, 0}}};
    const float one = 1.0f;
    std::vector<std::byte> weights(sizeof one);
    std::memcpy(weights.data(), &one, sizeof one);
    program.weights = std::move(weights);
    return program;
  }

 private:
  // An operand of a part of a tile in its half.
  struct Loaded {
    BufferSurface surface;
    TaskId task = 0;
  };

  std::int64_t output_rows() const { return layer_.convolution ? layer_.total.p : 1; }
  std::int64_t output_columns() const {
    return layer_.convolution ? layer_.total.q : layer_.total.n;
  }

  TaskId add(EngineKind engine, isa::TaskConfig config, std::uint32_t rows,
             std::vector<Dependency> dependencies) {
    const TaskId id =
        tasks_.add(engine, std::move(config), {1, rows, rows}, std::move(dependencies));
    tasks_.task(id).switch_allowed = false;
    return id;
  }

  // The factor of all results.
  void load_multiplier() {
    isa::KernelTask task;
    task.source = {BaseIndex::kWeights, 0};
    task.partitions = 1;
    task.bytes_per_partition = 4;
    multiplier_ = add(EngineKind::kKernel, task, 1, {});
  }

  TaskId transfer(EngineKind engine, const isa::DramView& dram, const BufferSurface& buffer,
                  std::vector<Dependency> dependencies) {
    isa::TransferTask task;
    task.dram = dram;
    task.buffer = buffer;
    task.channel_count = buffer.channels;
    return add(engine, task, buffer.rows, std::move(dependencies));
  }

  BufferSurface take(std::int64_t& at, std::int64_t channels, std::int64_t rows,
                     std::int64_t columns) const {
    const SurfaceShape shape{.channels = word_of(channels),
                             .rows = word_of(rows),
                             .columns = word_of(columns),
                             .format = Format::kI8};
    const BufferSurface surface = dense_surface(chip_, at, shape);
    at += surface_bytes(chip_, shape);
    return surface;
  }

  // Input pixels of a block: those that there are.
  Span input_span(const Span& outputs, std::int64_t taps, std::int64_t extent) const {
    if (!layer_.convolution) return outputs;
    const std::int64_t begin = outputs.first * layer_.stride - (taps - 1) / 2;
    const std::int64_t end = begin + input_extent(outputs.count, layer_.stride, taps);
    const std::int64_t first = std::max<std::int64_t>(0, begin);
    return {first, std::min(end, extent) - first};
  }

  Loaded load_moving(const Block& block, const Span& channels, std::int64_t& at,
                     const std::vector<Dependency>& free) {
    const Span rows =
        layer_.convolution ? input_span(block.rows, layer_.total.r, input_rows_) : Span{0, 1};
    const Span columns = input_span(block.columns, layer_.total.s, input_columns_);
    const std::int64_t pixel = layer_.total.c;
    const std::int64_t row = input_columns_ * pixel;
    Loaded loaded{take(at, channels.count, rows.count, columns.count)};
    const auto address =
        static_cast<std::uint64_t>(rows.first * row + columns.first * pixel + channels.first);
    loaded.task = transfer(EngineKind::kLoad, {{BaseIndex::kInput, address}, {0, 1, row, pixel}},
                           loaded.surface, free);
    return loaded;
  }

  Loaded load_stationary(const Block& block, const Span& channels, std::int64_t& at,
                         const std::vector<Dependency>& free) {
    const std::int64_t m = layer_.total.m;
    const std::int64_t tap = layer_.total.c * m;
    Loaded loaded{take(at, channels.count, layer_.total.r * layer_.total.s, block.outputs.count)};
    const auto address =
        static_cast<std::uint64_t>(weights_at_ + channels.first * m + block.outputs.first);
    loaded.task = transfer(EngineKind::kLoad, {{BaseIndex::kInput, address}, {0, m, tap, 1}},
                           loaded.surface, free);
    return loaded;
  }

  ProductConfig product_of(const Block& block, const Span& channels) const {
    ProductConfig product;
    product.matrix.kind = MatrixKind::kInteger;
    product.bias_format = Format::kI32;
    product.image.format = Format::kI8;
    product.image.channels = channels.count;
    product.image.output_channels = block.outputs.count;
    product.image.rows = chip_.neural.rows;
    product.image.columns = chip_.neural.columns;
    product.kernel_h = layer_.total.r;
    product.kernel_w = layer_.total.s;
    product.image.taps = layer_.total.r * layer_.total.s;
    product.stride_h = product.stride_w = layer_.stride;
    // Of the pixels that are loaded, the first ones may lie behind the padding.
    const auto pad = [&](const Span& outputs, std::int64_t taps) {
      return std::max<std::int64_t>(0, (taps - 1) / 2 - outputs.first * layer_.stride);
    };
    product.pad_top = pad(block.rows, layer_.total.r);
    product.pad_left = pad(block.columns, layer_.total.s);
    return product;
  }

  // All tiles of one sum, and the store of its results.
  void add_block(const Block& block) {
    const std::int64_t slot = blocks_ % 2;
    for_tiles(layer_.total.c, layer_.tile.c, [&](Span c) { add_tile(block, c, slot); });
    const std::int64_t m = layer_.total.m;
    const std::int64_t row = output_columns() * m;
    const auto address = static_cast<std::uint64_t>(block.rows.first * row +
                                                    block.columns.first * m + block.outputs.first);
    const TaskId product = *computed_[static_cast<std::size_t>((tiles_ - 1) % 2)];
    stored_[static_cast<std::size_t>(slot)] =
        transfer(EngineKind::kStore, {{BaseIndex::kOutput, address}, {0, 1, row, m}},
                 results(block, slot), {after_all(product)});
    ++blocks_;
  }

  BufferSurface results(const Block& block, std::int64_t slot) const {
    std::int64_t at = 2 * scratchpad_half(chip_) + slot * isa::psum_entries(chip_) / 2;
    return take(at, block.outputs.count, block.rows.count, block.columns.count);
  }

  // A product's sum follows its loads: a part is what the port brings in its largest transfers, one
  // of each row. A convolution waits for all of its tile.
  std::vector<Span> parts_of(const Span& channels) const {
    if (layer_.convolution) return {channels};
    std::vector<Span> parts;
    for_tiles(channels.count, chip_.dma.request_bytes,
              [&](Span part) { parts.push_back({channels.first + part.first, part.count}); });
    return parts;
  }

  void add_tile(const Block& block, const Span& channels, std::int64_t slot) {
    const auto half = static_cast<std::size_t>(tiles_ % 2);
    const std::int64_t begin = static_cast<std::int64_t>(half) * scratchpad_half(chip_);
    std::int64_t at = begin;
    std::vector<Dependency> free;
    if (computed_[half]) free.push_back(after_all(*computed_[half]));
    for (const Span& part : parts_of(channels)) {
      const Loaded moving = load_moving(block, part, at, free);
      const Loaded stationary = load_stationary(block, part, at, free);
      isa::NeuralTask task;
      task.product = product_of(block, part);
      task.moving = moving.surface;
      task.stationary = stationary.surface;
      task.dynamic = true;
      task.output = results(block, slot);
      task.psum.continues = part.first > 0;
      task.psum.keeps = part.last() < layer_.total.c;
      if (task.psum.in_parts()) task.psum.first = word_of(slot * isa::psum_entries(chip_) / 2);
      std::vector<Dependency> after = {after_all(moving.task), after_all(stationary.task)};
      if (task.psum.keeps) {
        task.output.format = Format::kI32;
        task.output.offset = 0;  // nothing goes there
      } else {
        task.product.requantise = true;
        task.multiplier_count = 1;
        after.push_back(after_all(multiplier_));
        const std::optional<TaskId>& store = stored_[static_cast<std::size_t>(slot)];
        if (store) after.push_back(after_all(*store));
      }
      task.product.output_format = task.output.format;
      computed_[half] = add(EngineKind::kNeural, task, word_of(block.rows.count), std::move(after));
    }
    ++tiles_;
    check_fits(block, at - begin);
  }

  void check_fits(const Block& block, std::int64_t operands) {
    const std::int64_t sums = ceil_div(block.outputs.count, chip_.neural.columns) *
                              block.rows.count * block.columns.count;
    const std::int64_t entries = isa::psum_entries(chip_) / 2;
    if (!misfit_.ok() || (operands <= scratchpad_half(chip_) && sums <= entries)) return;
    misfit_ = Error{ErrorCode::kDoesNotFit,
                    fmt::format("a tile takes {} bytes of a partition and {} sums, half of the "
                                "scratchpad has {} and half of the accumulator {}",
                                operands, sums, scratchpad_half(chip_), entries)};
  }

  const ChipConfig chip_;
  const TiledLayer layer_;
  TaskList tasks_;
  const std::int64_t input_rows_, input_columns_;
  const std::int64_t weights_at_;  // behind the input
  TaskId multiplier_ = 0;
  std::int64_t tiles_ = 0, blocks_ = 0;
  std::array<std::optional<TaskId>, 2> computed_;  // by half of the scratchpad
  std::array<std::optional<TaskId>, 2> stored_;    // by half of PSUM
  Status misfit_;
};

}  // namespace

std::int64_t scratchpad_half(const ChipConfig& chip) {
  return (chip.state_buffer.bytes_per_partition - isa::psum_entries(chip)) / 2;
}

std::int64_t input_extent(std::int64_t outputs, std::int64_t stride, std::int64_t taps) {
  return (outputs - 1) * stride + taps;
}

Result<isa::Program> tiled_program(const ChipConfig& chip, const TiledLayer& layer) {
  return Builder(chip, layer).run();
}

}  // namespace tessera::repro
