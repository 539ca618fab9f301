// The stationary side of a product whose pixels are rows of tiles (tile/row_product.h): output channels
// are the columns of tiles, 64 of them a panel.
//
//   panel ─► block ─► strip of 16 output channels ─► step ─► high | low ─► [16 quads][16][4 terms]
#pragma once

#include <cstdint>
#include <vector>

#include "arith/kernels/block/weights.h"
#include "arith/kernels/tile/dot.h"

namespace tessera::kernels {

// A step of a strip, high and low.
inline constexpr std::int64_t kColumnStepBytes = 2 * kTileBytes;

class TileColumns {
 public:
  explicit TileColumns(const ProductConfig& config);

  // Constant weights; with their biases and bounds.
  void pack(const BlockWeights& weights);
  // A panel of a dynamic operand of f16 whose columns lie side by side. False where an element is
  // not finite.
  bool pack_panel(const Surface& stationary, std::int64_t panel, std::vector<const void*>& rows);
  // After all panels of a dynamic operand.
  void bound_dynamic();

  const std::vector<NativeBlock>& blocks() const { return blocks_; }
  std::int64_t steps() const { return steps_; }  // of a strip
  std::int64_t panels() const;
  std::int64_t panel_channels(std::int64_t panel) const;
  // The panel's part of tile_dot()'s segments.
  void add_segments(std::int64_t panel, std::vector<TileSegment>& segments) const;
  const double* biases(std::int64_t panel) const { return biases_.data() + panel * kPanelPixels; }
  // Of all output channels; `bias` is not set.
  const ChannelBounds& bounds() const { return bounds_; }

 private:
  std::int64_t strips(std::int64_t panel) const;
  std::int64_t tile_offset(std::int64_t panel, const NativeBlock& block) const;
  std::int64_t index(std::int64_t panel, std::int64_t block) const {
    return (panel * std::ssize(blocks_) + block) * kPanelPixels;
  }
  void pack_strip(const BlockWeights& weights, std::int64_t block, std::int64_t first);

  const MatrixFormat matrix_;
  const std::int64_t channels_;
  std::vector<NativeBlock> blocks_;
  std::int64_t steps_ = 0;
  AlignedBuffer<std::int8_t> tiles_;
  std::vector<double> scales_;           // [panel][block][kPanelPixels]
  std::vector<std::uint8_t> exponents_;  // the same, of a dynamic operand
  std::vector<double> biases_;           // [panel][kPanelPixels]
  ChannelBounds bounds_;
};

}  // namespace tessera::kernels
