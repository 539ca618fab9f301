#include "arith/kernels/tile/row_product.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "arith/kernels/block/product.h"
#include "arith/kernels/tile/columns.h"
#include "arith/kernels/tile/rows.h"
#include "arith/vector_ops.h"
#include "base/check.h"
#include "base/quantity.h"

namespace tessera::kernels {
namespace {

// Strips whose tiles are made before panels pass over them: the tiles stay in the second-level
// cache, and a panel's weights serve them all.
constexpr std::int64_t kBatchStrips = 8;
constexpr std::int64_t kBatchPixels = kBatchStrips * kTileRows;
constexpr std::int64_t kStripsAtOnce = 2;  // they share the panel's tiles that are loaded
// Below, most of a tile would be empty.
constexpr std::int64_t kOutputChannelsMin = 8;

// A call of run() with all that it works on.
struct RowWork {
  const Surface& input;
  const Surface& output;
  std::int64_t output_channel_first;
  RowRange rows;
  ProductWorkspace& workspace;

  std::int64_t pixels() const { return (rows.last - rows.first) * output.columns; }
};

// What is ready to run: the product and its stationary side.
struct RowSide {
  const ProductConfig& config;  // without an activation that is fused
  const FusedClamp& clamp;
  const TileColumns& columns;
  std::function<const Product&()> obvious;
};

bool lies_in_rows(const Surface& surface) {
  return surface.partition_pitch == format_bytes(surface.format) &&
         surface.channels <= surface.partitions;
}

class RowRun {
 public:
  RowRun(const RowSide& side, const RowWork& work) : side_(side), work_(work) {}

  void run() {
    const std::int64_t pixels = work_.pixels();
    for (std::int64_t first = 0; first < pixels; first += kBatchPixels) {
      run_batch(first, std::min(pixels, first + kBatchPixels));
    }
  }

 private:
  // The pixels of a batch: where each one's results go, and which strips are ready.
  struct Batch {
    std::int64_t first = 0, last = 0;
    std::array<std::byte*, kBatchPixels> targets{};
    std::array<bool, kBatchStrips> ready{};

    std::int64_t strips() const { return ceil_div(last - first, kTileRows); }
    RowRange strip(std::int64_t index) const {
      const std::int64_t begin = first + index * kTileRows;
      return {begin, std::min(last, begin + kTileRows)};
    }
  };

  const ProductConfig& config() const { return side_.config; }
  std::int64_t strip_bytes() const { return side_.columns.steps() * kColumnStepBytes; }
  std::int64_t blocks() const { return std::ssize(side_.columns.blocks()); }

  std::byte* pixel_at(const Surface& surface, std::int64_t pixel) const {
    return surface.base + row_offset(surface, work_.rows.first + pixel / work_.output.columns) +
           pixel % work_.output.columns * surface.column_pitch;
  }

  void run_batch(std::int64_t first, std::int64_t last) {
    ProductWorkspace& workspace = work_.workspace;
    workspace.tiles.reserve(kBatchStrips * strip_bytes());
    workspace.scales.reserve(kBatchPixels * blocks());
    workspace.exponents.reserve(kTileRows * blocks());
    Batch batch = {.first = first, .last = last};
    const std::int64_t offset = work_.output_channel_first * format_bytes(work_.output.format);
    for (std::int64_t pixel = first; pixel < last; ++pixel) {
      batch.targets[static_cast<std::size_t>(pixel - first)] =
          pixel_at(work_.output, pixel) + offset;
    }
    for (std::int64_t strip = 0; strip < batch.strips(); ++strip) {
      batch.ready[static_cast<std::size_t>(strip)] = make_strip(strip, batch.strip(strip));
    }
    {
      const TileScope scope;
      for (std::int64_t panel = 0; panel < side_.columns.panels(); ++panel) {
        multiply_panel(panel, batch);
      }
    }
    // Last, since the obvious form takes the same workspace and sets up tiles itself.
    for (std::int64_t strip = 0; strip < batch.strips(); ++strip) {
      if (batch.ready[static_cast<std::size_t>(strip)]) {
        activate(batch, batch.strip(strip));
      } else {
        run_obvious(batch.strip(strip));
      }
    }
  }

  // Tiles, scales and exponents of 16 pixels. False where they have to go the obvious way.
  bool make_strip(std::int64_t strip, RowRange pixels) {
    std::array<const std::byte*, kTileRows> pointers{};
    for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
      pointers[static_cast<std::size_t>(pixel - pixels.first)] = pixel_at(work_.input, pixel);
    }
    ProductWorkspace& workspace = work_.workspace;
    for (std::int64_t b = 0; b < blocks(); ++b) {
      const NativeBlock& block = side_.columns.blocks()[static_cast<std::size_t>(b)];
      const bool finite = quantise_rows_into_tiles(
          {.pixels = pointers.data(),
           .terms = block.count,
           .mantissa_bits = config().matrix.mantissa_bits_moving,
           .tiles =
               workspace.tiles.data() + strip * strip_bytes() + block.first_step * kColumnStepBytes,
           .exponents = workspace.exponents.data() + b * kTileRows,
           .scales = workspace.scales.data() + (strip * blocks() + b) * kTileRows});
      if (!finite) return false;
      for (const std::byte*& pointer : pointers) {
        if (pointer != nullptr) pointer += block.count * format_bytes(work_.input.format);
      }
    }
    return is_safe();
  }

  // Whether all sums of the strip at hand are exact in binary64, and no flag is due.
  bool is_safe() const {
    int lowest = 255;
    int highest = 0;
    for (std::int64_t i = 0; i < blocks() * kTileRows; ++i) {
      const int exponent = work_.workspace.exponents.data()[i];
      if (exponent == 0) continue;  // all zeros
      lowest = std::min(lowest, exponent);
      highest = std::max(highest, exponent);
    }
    const auto unit = [&](int exponent) {
      return mantissa_unit(exponent, arith::exponent_bias(Format::kF16),
                           config().matrix.mantissa_bits_moving);
    };
    return highest == 0
               ? is_exact_sum(side_.columns.bounds(), std::nullopt)
               : is_exact_sum(side_.columns.bounds(),
                              MovingUnits{.lowest = unit(lowest), .highest = unit(highest)});
  }

  void multiply_panel(std::int64_t panel, const Batch& batch) {
    ProductWorkspace& workspace = work_.workspace;
    double* sums = workspace.sums.reserve(kStripsAtOnce * kTileRows * kPanelPixels);
    workspace.tile_segments.clear();
    side_.columns.add_segments(panel, workspace.tile_segments);
    const std::int64_t channels = side_.columns.panel_channels(panel);
    for (std::int64_t strip = 0; strip < batch.strips();) {
      std::int64_t count = 0;
      while (count < kStripsAtOnce && strip + count < batch.strips() &&
             batch.ready[static_cast<std::size_t>(strip + count)]) {
        ++count;
      }
      if (count > 0) {
        tile_dot({.segments = workspace.tile_segments,
                  .strips = ceil_div(channels, kStripPixels),
                  .rows = count,
                  .weights = workspace.tiles.data() + strip * strip_bytes(),
                  .row_weights = strip_bytes(),
                  .weight_scales = workspace.scales.data() + strip * blocks() * kTileRows,
                  .row_scales = blocks() * kTileRows},
                 sums);
      }
      for (std::int64_t i = 0; i < count; ++i) {
        finish_strip(panel, batch, batch.strip(strip + i), sums + i * kTileRows * kPanelPixels);
      }
      strip += std::max<std::int64_t>(1, count);
    }
  }

  void finish_strip(std::int64_t panel, const Batch& batch, RowRange pixels, const double* sums) {
    const std::int64_t offset = panel * kPanelPixels * format_bytes(work_.output.format);
    std::array<std::byte*, kTileRows> targets{};
    for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
      targets[static_cast<std::size_t>(pixel - pixels.first)] =
          batch.targets[static_cast<std::size_t>(pixel - batch.first)] + offset;
    }
    finish_rows({.sums = sums,
                 .biases = side_.columns.biases(panel),
                 .targets = targets.data(),
                 .pixels = pixels.last - pixels.first,
                 .channels = side_.columns.panel_channels(panel),
                 .format = work_.output.format,
                 .clamps = side_.clamp.fused,
                 .lowest = side_.clamp.lowest,
                 .highest = side_.clamp.highest});
  }

  // What the rounding does not take along.
  void activate(const Batch& batch, RowRange pixels) {
    if (config().activation.function == UnaryFunction::kIdentity) return;
    const Format format = work_.output.format;
    for (std::int64_t pixel = pixels.first; pixel < pixels.last; ++pixel) {
      std::byte* const row = batch.targets[static_cast<std::size_t>(pixel - batch.first)];
      arith::simd::unary(config().activation, {.format = format, .data = row, .stride = 1},
                         {.format = format, .data = row, .count = config().image.output_channels});
    }
  }

  void run_obvious(RowRange pixels) {
    const std::int64_t columns = work_.output.columns;
    const Product& product = side_.obvious();
    for (std::int64_t pixel = pixels.first; pixel < pixels.last;) {
      const std::int64_t row = work_.rows.first + pixel / columns;
      const std::int64_t column = pixel % columns;
      const std::int64_t count = std::min(pixels.last - pixel, columns - column);
      // Rows of one pixel go together.
      const std::int64_t rows = columns == 1 ? pixels.last - pixel : 1;
      product.run(columns_of(work_.input, column, count), columns_of(work_.output, column, count),
                  work_.output_channel_first, {row, row + rows}, work_.workspace);
      pixel += std::max(count, rows);
    }
  }

  static Surface columns_of(const Surface& surface, std::int64_t first, std::int64_t count) {
    Surface some = surface;
    some.base += first * surface.column_pitch;
    some.columns = count;
    return some;
  }

  const RowSide& side_;
  const RowWork& work_;
};

// True where the work was done.
bool run_rows(const RowSide& side, const RowWork& work) {
  const bool rows = lies_in_rows(work.input) && lies_in_rows(work.output) &&
                    work.input.format == Format::kF16 &&
                    work.output.format == side.config.output_format;
  if (!rows) return false;
  RowRun(side, work).run();
  return true;
}

ProductConfig without_fused(const ProductConfig& config, const FusedClamp& clamp) {
  ProductConfig plain = config;
  if (clamp.fused) plain.activation = {};
  return plain;
}

class RowProduct final : public Product {
 public:
  RowProduct(const ProductConfig& config, const PlainWeights& weights,
             const ProductVectors& vectors)
      : obvious_(config, weights, vectors, BlockProduct::Tiles::kNever),
        clamp_(fused_clamp(config)),
        config_(without_fused(config, clamp_)),
        columns_(config) {
    columns_.pack(obvious_.weights());
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    const auto obvious = [this]() -> const Product& { return obvious_; };
    workspace.flags |= obvious_.weights().flags();
    if (!run_rows({config_, clamp_, columns_, obvious},
                  {input, output, output_channel_first, rows, workspace})) {
      obvious_.run(input, output, output_channel_first, rows, workspace);
    }
  }

 private:
  const BlockProduct obvious_;
  const FusedClamp clamp_;
  const ProductConfig config_;
  TileColumns columns_;
};

class DynamicRowProduct final : public DynamicProduct {
 public:
  explicit DynamicRowProduct(const ProductConfig& config)
      : whole_config_(config),
        clamp_(fused_clamp(config)),
        config_(without_fused(config, clamp_)),
        columns_(config),
        finite_(static_cast<std::size_t>(columns_.panels())) {}

  std::int64_t take(const Surface& stationary) override {
    stationary_ = stationary;
    obvious_.reset();
    in_rows_ = stationary.format == Format::kF16 &&
               (stationary.columns == 1 || stationary.column_pitch == format_bytes(Format::kF16));
    return in_rows_ ? columns_.panels() : 0;
  }

  void pack(std::int64_t piece, ProductWorkspace& workspace) override {
    finite_[static_cast<std::size_t>(piece)] =
        columns_.pack_panel(stationary_, piece, workspace.row_pointers) ? 1 : 0;
  }

  void settle() override {
    in_rows_ &= std::find(finite_.begin(), finite_.end(), 0) == finite_.end();
    if (in_rows_) columns_.bound_dynamic();
  }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override {
    const auto obvious = [this]() -> const Product& { return this->obvious(); };
    if (!in_rows_ || !run_rows({config_, clamp_, columns_, obvious},
                               {input, output, output_channel_first, rows, workspace})) {
      obvious().run(input, output, output_channel_first, rows, workspace);
    }
  }

 private:
  // Made when it is wanted, by whichever thread wants it first.
  const Product& obvious() const {
    const std::lock_guard lock(making_);
    if (!obvious_) {
      ProductConfig config = whole_config_;
      config.channels_side_by_side = false;
      obvious_ = std::make_shared<BlockProduct>(config, plain_weights(config.image, stationary_),
                                                ProductVectors{});
    }
    return *obvious_;
  }

  const ProductConfig whole_config_;
  const FusedClamp clamp_;
  const ProductConfig config_;
  TileColumns columns_;
  Surface stationary_;
  std::vector<char> finite_;  // a panel
  bool in_rows_ = false;
  mutable std::mutex making_;
  mutable std::shared_ptr<const Product> obvious_;
};

}  // namespace

bool fits_row_product(const ProductConfig& config) {
  const KernelImageShape& image = config.image;
  const bool plain = config.channels_side_by_side && !image.channel_wise && image.groups == 1 &&
                     image.taps == 1 && config.stride_h == 1 && config.stride_w == 1 &&
                     config.pad_top == 0 && config.pad_left == 0 && config.input_dilation_h == 1 &&
                     config.input_dilation_w == 1;
  return plain && config.matrix.kind == MatrixKind::kBlockFloat &&
         config.matrix.long_format == LongFormat::kExact &&
         (config.output_format == Format::kF16 || config.output_format == Format::kF32) &&
         image.output_channels >= kOutputChannelsMin && fits_matrix_tiles(config.matrix);
}

std::shared_ptr<const Product> make_row_product(const ProductConfig& config,
                                                const PlainWeights& weights,
                                                const ProductVectors& vectors) {
  return std::make_shared<RowProduct>(config, weights, vectors);
}

std::shared_ptr<DynamicProduct> make_dynamic_row_product(const ProductConfig& config) {
  return std::make_shared<DynamicRowProduct>(config);
}

}  // namespace tessera::kernels
