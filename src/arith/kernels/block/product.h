// Products of block-float operands: integer dots of native blocks, exact sums, one rounding.
//
//   flat     one row of taps x channels per pixel (im2col cut, one-tap weights, narrow outputs):
//            64 pixels are gathered, quantised and multiplied at a time       block/flat.cc
//   rolling  several taps, blocks along channels: each input row is quantised once and stays while
//            the window passes over it; taps read it at shifted columns       block/rolling.cc
//   both     the sums of a panel, and the proof that they are exact           block/sums.cc
//
// Sums are kept in binary64. That is exact where the exponents of a pixel's blocks, of the weights'
// blocks and of the bias lie within 53 bits, which is proved for each panel before its sums are
// used; elements without proof are summed again in the wide accumulator.
//
// Where the processor has matrix tiles (tile/dot.h), mantissas of up to 13 bits are multiplied
// there; everything around the integer dots is the same.
//
// With the long format q34.40 the contribution of each block is floored to 2^-40 before it is
// added. Where all terms of a panel are multiples of 2^-40 that changes nothing, and the sum is the
// exact one; elsewhere the panel is summed block by block.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arith/kernels/block/row_layout.h"
#include "arith/kernels/block/weights.h"
#include "arith/kernels/product.h"
#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

// Exponents of the blocks of one pixel: the smallest and largest; zero blocks do not count.
struct PixelExponents {
  std::array<std::uint8_t, kPanelPixels> lowest;   // 255 where all blocks are zero
  std::array<std::uint8_t, kPanelPixels> highest;  // 0 where all blocks are zero
  int panel_lowest = 255;
  int panel_highest = 0;
};

struct Panel {
  std::int64_t strips = 0;
  std::int64_t pair_stride = 0;
  std::int64_t lane = 0;  // of the batch
  // Where finished sums go at once: the group's first output channel; null: into the batch.
  std::byte* target = nullptr;
};

// Where to put a quantised block.
struct BlockTarget {
  std::int16_t* mantissas;
  std::int64_t pair_stride;
  std::uint8_t* exponents;
  double* scales;
};
// Whether mantissas of these widths, and the dot of a whole block, fit the processor's matrix
// tiles.
bool fits_matrix_tiles(const MatrixFormat& matrix);

class BlockProduct final : public Product {
 public:
  enum class Tiles { kWherePossible, kNever };
  BlockProduct(const ProductConfig& config, const PlainWeights& weights,
               const ProductVectors& vectors, Tiles tiles = Tiles::kWherePossible);

  const BlockWeights& weights() const { return weights_; }

  void run(const Surface& input, const Surface& output, std::int64_t output_channel_first,
           RowRange rows, ProductWorkspace& workspace) const override;

 private:
  // One call of run(): what it works on.
  struct Run {
    const BlockProduct& product;
    const Surface& input;
    const Surface& output;
    std::int64_t output_channel_first;
    ProductWorkspace& workspace;
    std::int64_t batch_lanes;
    std::int64_t element;  // bytes of an input element
    std::int64_t group = 0;
    // Rows of f16 that are taken apart by the stride; without a base they are not.
    struct Phases {
      std::byte* base = nullptr;  // of the group's first channel
      std::int64_t pitch = 0, row_pitch = 0, width = 0, first_row = 0;

      // Of the sample under output column `column`, from its row's begin; `shift` as in TapColumns.
      std::int64_t place(std::int64_t column, std::int64_t shift, std::int64_t stride) const {
        const std::int64_t phase = (shift % stride + stride) % stride;
        return (phase * width + column + (shift - phase) / stride) *
               static_cast<std::int64_t>(sizeof(std::uint16_t));
      }
    };
    Phases phases = {};
    // The panel, as long as its mantissas have not been made (flat products).
    FlatPixels unmade = {};

    const ProductConfig& config() const { return product.config_; }
    // Batches.
    // From one channel of a batch to the next: a panel may write a whole strip where it has less.
    std::int64_t batch_pitch() const { return batch_lanes + kStripPixels; }
    std::byte* batch_row(std::int64_t output_channel) const;
    void flush_batch();

    // Flat products.
    void run_flat(RowRange rows);
    std::byte* direct_target(const FlatPixels& pixels) const;
    void flat_panel(const FlatPixels& pixels, std::int64_t lane, std::byte* target_pixels);
    bool gather_panel(const FlatPixels& pixels);
    void point_at(std::int64_t tap, std::int64_t offset, std::uint64_t lanes);
    void gather_tap(std::int64_t tap, std::byte* patch);
    void find_tap_columns();
    bool splits_phases() const;
    void split_phases(RowRange rows);
    bool point_at_panel(const FlatPixels& pixels);
    void point_at_row(const FlatPixels& pixels, std::int64_t column);
    bool panels_end_with_rows() const;
    std::int64_t panel_end(std::int64_t pixel, std::int64_t last) const;
    BlockTarget flat_target(std::int64_t block);
    void quantise_flat_block(std::int64_t block, std::int64_t pixels);
    bool flat_panel_into_tiles(const FlatPixels& pixels);
    void make_mantissas();

    // Rolling products (rolling_ in names: over the row cache).
    struct Strip {
      std::int64_t output_row, phase, first, count;
    };
    void run_rolling(RowRange rows);
    void rolling_panel(const RowLayout& columns, std::span<const Strip> strips, std::int64_t lane);
    QuantisedRow& quantised_row(const RowLayout& columns, std::int64_t row);
    void quantise_row(const RowLayout& columns, std::int64_t row, QuantisedRow& target);
    std::byte* zeroed_patch(std::int64_t rows, std::int64_t columns);
    void point_at_row(const NativeBlock& block, std::byte* patch, std::int64_t columns);
    static void clear_columns(const BlockTarget& target, std::int64_t pairs, RowRange range);

    // Both.
    // `lanes` as those of arith::ColumnBlocks.
    void quantise(std::span<const void* const> rows, std::int64_t pixels, const BlockTarget& target,
                  const std::uint64_t* lanes = nullptr);
    void multiply(const Panel& panel);
    void fetch_target(const Panel& panel, ChannelRange channels) const;
    void multiply_tiles(const Panel& panel, const PixelExponents& exponents);
    bool any_floor(ChannelRange channels, const PixelExponents& exponents) const;
    void floored_sums(const PanelDot& dot, double* sums);
    PixelExponents pixel_exponents(const Panel& panel) const;
    int moving_unit(int exponent) const {
      return mantissa_unit(exponent, arith::exponent_bias(input.format),
                           config().matrix.mantissa_bits_moving);
    }
    int top_of(const ChannelBounds& bounds, int highest) const;
    bool is_exact(const ChannelBounds& bounds, int lowest, int highest) const;
    bool is_safe(const ChannelBounds& bounds, const PixelExponents& exponents) const;
    void finish_safely(const Panel& panel, ChannelRange channels, const PanelDot& dot,
                       double* sums);
    TileFinish tile_finish(const Panel& panel, ChannelRange channels, const double* sums,
                           const double* biases) const;
    std::byte* finish_target(const Panel& panel, ChannelRange channels) const;
    void activate(const TileFinish& finish, std::byte* out) const;
    void finish(const Panel& panel, const PixelExponents& exponents, ChannelRange channels,
                double* sums);
    void repair(const PixelExponents& exponents, std::int64_t channel, std::int64_t pixels,
                double* sums);
    double wide_sum(std::int64_t pixel, std::int64_t output_channel) const;
    void begin_segments();
    struct Strips {
      std::int64_t count;
      bool made;  // their tiles are there
    };
    void add_tile_segment(const PanelSegment& whole, const NativeBlock& block, std::int64_t index,
                          Strips strips);
    void add_segments(const PanelSegment& whole, const NativeBlock& block, std::int64_t index,
                      std::int64_t pair_stride);
  };

  std::int64_t batch_lanes() const;

  ProductConfig config_;            // without an activation that is fused
  std::int64_t segment_pairs_ = 0;  // pairs that are summed in int32 without overflow
  bool tiles_ = false;
  BlockWeights weights_;
  int weight_bias_ = 15;
  FusedClamp clamp_;
  bool flat_ = true;
};

}  // namespace tessera::kernels
