#include "arith/kernels/block/lane_product.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "arith/kernels/block/lane_columns.h"
#include "arith/kernels/block/product.h"
#include "arith/kernels/block/zero_blocks.h"
#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Pixels that pass over a panel together, and how many such groups are quantised before panels pass
// over them, so that a panel's weights stay in the cache for them all.
constexpr std::int64_t kGroupPixels = kTileChannels;
constexpr std::int64_t kBatchGroups = 8;
constexpr std::int64_t kBatchPixels = kBatchGroups * kGroupPixels;

// A call of run() with all that it works on, and what is ready for it.
struct LaneWork {
  const ProductConfig& config;
  const LaneColumns& columns;
  const Surface& input;
  const Surface& output;
  std::int64_t output_channel_first;
  RowRange rows;
  ProductWorkspace& workspace;

  std::int64_t blocks() const { return std::ssize(columns.blocks()); }
  std::byte* pixel_at(const Surface& surface, std::int64_t pixel) const {
    return surface.base + row_offset(surface, rows.first + pixel / output.columns) +
           pixel % output.columns * surface.column_pitch;
  }
  std::byte* target(std::int64_t pixel) const {
    return pixel_at(output, pixel) + output_channel_first * format_bytes(output.format);
  }
  // Of a group of a batch.
  std::int32_t* group_pairs(std::int64_t group) const {
    return workspace.integer_sums.data() + group * columns.pairs() * kGroupPixels;
  }
  double* group_scales(std::int64_t group) const {
    return workspace.scales.data() + group * blocks() * kGroupPixels;
  }
};

// Quantises one pixel: pairs and scales among those of the `count` pixels of its group. The units
// of its blocks that are not zero, if any.
std::optional<MovingUnits> quantise_pixel(const LaneWork& work, std::int64_t pixel,
                                          std::int64_t place, RowRange group_pixels,
                                          std::int64_t group) {
  ProductWorkspace& workspace = work.workspace;
  const int bits = work.config.matrix.mantissa_bits_moving;
  const int bias = arith::exponent_bias(work.input.format);
  const std::int64_t count = group_pixels.last - group_pixels.first;
  const std::int64_t terms =
      work.columns.blocks().back().first + work.columns.blocks().back().count;
  std::int16_t* const mantissas = workspace.mantissas.data();
  mantissas[terms] = 0;  // behind an odd number
  std::uint8_t* const exponents = workspace.exponents.data();
  arith::simd::quantise_runs({.format = work.input.format,
                              .elements = work.pixel_at(work.input, pixel),
                              .count = terms,
                              .block_size = work.config.matrix.native_dimension,
                              .mantissa_bits = bits,
                              .exponents = exponents,
                              .mantissas = mantissas},
                             workspace.flags);
  std::int32_t* const pairs = work.group_pairs(group) + place;
  double* const scales = work.group_scales(group) + place;
  std::optional<MovingUnits> units;
  for (std::int64_t b = 0; b < work.blocks(); ++b) {
    const NativeBlock& block = work.columns.blocks()[static_cast<std::size_t>(b)];
    std::uint32_t used = 0;
    for (std::int64_t i = 0; i < block.pairs(); ++i) {
      std::uint32_t both = 0;
      std::memcpy(&both, mantissas + block.first + 2 * i, sizeof both);
      if (2 * i + 1 == block.count) both &= 0xFFFF;
      used |= both;
      pairs[(block.first_pair + i) * count] = static_cast<std::int32_t>(both);
    }
    const int unit = mantissa_unit(exponents[b], bias, bits);
    scales[b * count] = power_of_two(unit);
    if (used == 0) continue;
    if (!units) units = {unit, unit};
    units = {std::min(units->lowest, unit), std::max(units->highest, unit)};
  }
  return units;
}

// Pixels [pixels.first, pixels.last) of a group. False where a sum is not proved exact.
bool quantise_group(const LaneWork& work, std::int64_t group, RowRange pixels) {
  std::optional<MovingUnits> units;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    const auto own = quantise_pixel(work, pixel, pixel - pixels.first, pixels, group);
    if (!own) continue;
    if (!units) units = own;
    units = {std::min(units->lowest, own->lowest), std::max(units->highest, own->highest)};
  }
  return is_exact_sum(work.columns.bounds(), units);
}

PanelDot group_dot(const LaneWork& work, std::int64_t panel, std::int64_t group, RowRange pixels) {
  return {.segments = work.workspace.segments,
          .strips = ceil_div(work.columns.panel_channels(panel), kStripPixels),
          .pair_stride = 2 * kPanelPixels,
          .channels = pixels.last - pixels.first,
          .weights = work.group_pairs(group),
          .weight_scales = work.group_scales(group)};
}

// The sums of a pixel in output format f32 or bf16.
void round_rows(const LaneWork& work, std::int64_t panel, RowRange pixels, double* sums) {
  const std::int64_t channels = work.columns.panel_channels(panel);
  const std::int64_t offset = panel * kPanelPixels * format_bytes(work.output.format);
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    round_sums(sums + (pixel - pixels.first) * kPanelPixels, channels, work.output.format,
               work.target(pixel) + offset);
  }
}

// Sums of a panel and a group, rounded to where they belong.
void multiply_group(const LaneWork& work, std::int64_t panel, std::int64_t group, RowRange pixels) {
  constexpr double kNoBiases[kGroupPixels] = {};
  constexpr std::int64_t kElement = sizeof(std::uint16_t);
  const std::int64_t channels = work.columns.panel_channels(panel);
  double* const sums = work.workspace.sums.data();
  const PanelDot dot = group_dot(work, panel, group, pixels);
  const bool halves = work.output.format == Format::kF16;
  const bool together = halves && !work.columns.has_biases();
  if (!together) {
    dot_panel(dot, sums);
    const double* const biases = work.columns.biases(panel);
    for (std::int64_t pixel = 0; pixel < dot.channels; ++pixel) {
      double* const row = sums + pixel * kPanelPixels;
      for (std::int64_t i = 0; i < dot.strips * kStripPixels; ++i) row[i] += biases[i];
    }
  }
  if (!halves) return round_rows(work, panel, pixels, sums);
  // Whole strips of rows that are evenly spaced go where they belong, others by way of a copy.
  alignas(64) std::byte rows[kGroupPixels * kPanelPixels * kElement];
  const std::int64_t offset = panel * kPanelPixels * kElement;
  const bool direct = channels % kStripPixels == 0 &&
                      pixels.first / work.output.columns == (pixels.last - 1) / work.output.columns;
  std::byte* const out = direct ? work.target(pixels.first) + offset : rows;
  const TileFinish finish = {
      .sums = sums,
      .biases = kNoBiases,
      .channels = dot.channels,
      .pixels = dot.strips * kStripPixels,
      .format = work.output.format,
      .out_stride = direct ? work.output.column_pitch : kPanelPixels * kElement};
  together ? dot_and_finish(dot, finish, sums, out) : finish_tile(finish, out);
  if (direct) return;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    std::memcpy(work.target(pixel) + offset,
                rows + (pixel - pixels.first) * kPanelPixels * kElement,
                static_cast<std::size_t>(channels * kElement));
  }
}

void activate(const LaneWork& work, RowRange pixels) {
  if (work.config.activation.function == UnaryFunction::kIdentity) return;
  const Format format = work.output.format;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
    std::byte* const row = work.target(pixel);
    arith::simd::unary(work.config.activation, {.format = format, .data = row, .stride = 1},
                       {.format = format, .data = row, .count = work.config.image.output_channels});
  }
}

Surface columns_of(const Surface& surface, std::int64_t first, std::int64_t count) {
  Surface some = surface;
  some.base += first * surface.column_pitch;
  some.columns = count;
  return some;
}

void run_obvious(const LaneWork& work, const Product& product, RowRange pixels) {
  const std::int64_t columns = work.output.columns;
  for (std::int64_t pixel = pixels.first; pixel < pixels.last;) {
    const std::int64_t row = work.rows.first + pixel / columns;
    const std::int64_t column = pixel % columns;
    const std::int64_t count = std::min(pixels.last - pixel, columns - column);
    product.run(columns_of(work.input, column, count), columns_of(work.output, column, count),
                work.output_channel_first, {row, row + 1}, work.workspace);
    pixel += count;
  }
}

using Obvious = std::function<const Product&()>;

void run_batch(const LaneWork& work, const Obvious& obvious, RowRange batch) {
  const std::int64_t groups = ceil_div(batch.last - batch.first, kGroupPixels);
  const auto pixels_of = [&](std::int64_t group) {
    const std::int64_t first = batch.first + group * kGroupPixels;
    return RowRange{first, std::min(batch.last, first + kGroupPixels)};
  };
  std::array<bool, kBatchGroups> exact{};
  for (std::int64_t group = 0; group < groups; ++group) {
    exact[static_cast<std::size_t>(group)] = quantise_group(work, group, pixels_of(group));
  }
  for (std::int64_t panel = 0; panel < work.columns.panels(); ++panel) {
    work.workspace.segments.clear();
    work.columns.add_segments(panel, work.workspace.segments);
    for (std::int64_t group = 0; group < groups; ++group) {
      if (exact[static_cast<std::size_t>(group)]) {
        multiply_group(work, panel, group, pixels_of(group));
      }
    }
  }
  // Last, since the obvious form takes the same workspace.
  for (std::int64_t group = 0; group < groups; ++group) {
    if (exact[static_cast<std::size_t>(group)]) {
      activate(work, pixels_of(group));
    } else {
      run_obvious(work, obvious(), pixels_of(group));
    }
  }
}

// True where the work was done.
bool run_in_lanes(const LaneWork& work, const Obvious& obvious) {
  const bool fits = lies_in_rows(work.input) && lies_in_rows(work.output) &&
                    work.input.format == work.config.moving_format &&
                    work.output.format == work.config.output_format;
  if (!fits) return false;
  const std::int64_t pixels = (work.rows.last - work.rows.first) * work.output.columns;
  const NativeBlock& last = work.columns.blocks().back();
  ProductWorkspace& workspace = work.workspace;
  for (std::int64_t first = 0; first < pixels; first += kBatchPixels) {
    workspace.mantissas.reserve(last.first + last.count + 1);
    workspace.exponents.reserve(work.blocks());
    workspace.integer_sums.reserve(work.columns.pairs() * kBatchPixels);
    workspace.scales.reserve(work.blocks() * kBatchPixels);
    workspace.sums.reserve(kGroupPixels * kPanelPixels);
    run_batch(work, obvious, {first, std::min(pixels, first + kBatchPixels)});
  }
  return true;
}

class LaneProduct final : public Product {
 public:
  LaneProduct(const ProductConfig& config, const PlainWeights& weights,
              const ProductVectors& vectors)
      : config_(config),
        obvious_(config, weights, vectors, BlockProduct::Tiles::kNever),
        columns_(config) {
    columns_.pack(obvious_.weights());
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    workspace.flags |= obvious_.weights().flags();
    const auto obvious = [this]() -> const Product& { return obvious_; };
    if (!run_in_lanes({config_, columns_, input, output, output_channel_first, rows, workspace},
                      obvious)) {
      obvious_.run(input, output, output_channel_first, rows, workspace);
    }
  }

 private:
  const ProductConfig config_;
  const BlockProduct obvious_;
  LaneColumns columns_;
};

class DynamicLaneProduct final : public DynamicProduct {
 public:
  explicit DynamicLaneProduct(const ProductConfig& config)
      : config_(config), columns_(config), flags_(static_cast<std::size_t>(columns_.panels())) {}

  std::int64_t take(const Surface& stationary) override {
    stationary_ = stationary;
    obvious_.reset();
    std::ranges::fill(flags_, arith::StickyFlags{});
    in_rows_ =
        stationary.format == config_.image.format &&
        (stationary.columns == 1 || stationary.column_pitch == format_bytes(stationary.format));
    return in_rows_ ? columns_.panels() : 0;
  }
  void pack(std::int64_t piece, ProductWorkspace& workspace) override {
    columns_.pack_panel(stationary_, piece, workspace.row_pointers,
                        flags_[static_cast<std::size_t>(piece)]);
  }
  void settle() override {
    if (in_rows_) columns_.bound_dynamic();
  }
  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    for (const arith::StickyFlags& flags : flags_) workspace.flags |= flags;
    const auto obvious = [this]() -> const Product& { return this->obvious(); };
    if (!in_rows_ ||
        !run_in_lanes({config_, columns_, input, output, output_channel_first, rows, workspace},
                      obvious)) {
      obvious().run(input, output, output_channel_first, rows, workspace);
    }
  }

 private:
  // Made when it is wanted, by whichever thread wants it first.
  const Product& obvious() const {
    const std::lock_guard lock(making_);
    if (!obvious_) {
      obvious_ = std::make_shared<BlockProduct>(config_, plain_weights(config_.image, stationary_),
                                                ProductVectors{}, BlockProduct::Tiles::kNever);
    }
    return *obvious_;
  }

  const ProductConfig config_;
  LaneColumns columns_;
  Surface stationary_;
  std::vector<arith::StickyFlags> flags_;  // a panel
  bool in_rows_ = false;
  mutable std::mutex making_;
  mutable std::shared_ptr<const Product> obvious_;
};

}  // namespace

bool fits_lane_product(const ProductConfig& config) {
  const KernelImageShape& image = config.image;
  const bool plain = config.channels_side_by_side && !image.channel_wise && image.groups == 1 &&
                     image.taps == 1 && config.stride_h == 1 && config.stride_w == 1 &&
                     config.pad_top == 0 && config.pad_left == 0 && config.input_dilation_h == 1 &&
                     config.input_dilation_w == 1;
  return plain && config.matrix.kind == MatrixKind::kBlockFloat &&
         config.matrix.long_format == LongFormat::kExact && !fits_matrix_tiles(config.matrix);
}

std::shared_ptr<const Product> make_lane_product(const ProductConfig& config,
                                                 const PlainWeights& weights,
                                                 const ProductVectors& vectors) {
  return std::make_shared<LaneProduct>(config, weights, vectors);
}

std::shared_ptr<DynamicProduct> make_dynamic_lane_product(const ProductConfig& config) {
  return std::make_shared<DynamicLaneProduct>(config);
}

}  // namespace tessera::kernels
