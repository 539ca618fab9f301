// The stationary side of a matrix product for dot_panel() with its sides exchanged: output channels
// are the lanes, 64 to a panel, and pixels what passes over them.
//
//   stationary [terms][output channels] ─► [panel][pair of terms][64 output channels][2]
#pragma once

#include <cstdint>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/block/weights.h"
#include "arith/kernels/dot_panel.h"
#include "arith/kernels/surface.h"

namespace tessera::kernels {

class LaneColumns {
 public:
  // Of one group and one tap.
  explicit LaneColumns(const ProductConfig& config);

  // Weights that are constant, with their biases.
  void pack(const BlockWeights& weights);
  // A panel of an operand [terms][output channels] whose channels lie side by side. `rows` is
  // overwritten. Panels may be packed at the same time.
  void pack_panel(const Surface& stationary, std::int64_t panel, std::vector<const void*>& rows,
                  arith::StickyFlags& flags);
  // Behind the last panel.
  void bound_dynamic();

  const std::vector<NativeBlock>& blocks() const { return blocks_; }
  std::int64_t pairs() const { return pairs_; }
  std::int64_t panels() const { return std::ssize(biases_) / kPanelPixels; }
  std::int64_t panel_channels(std::int64_t panel) const;
  // Appended, in the order of the terms; without pairs of terms at either end of a block whose weights are all
  // zeros in this panel, as in a matrix that interpolates. At least one.
  void add_segments(std::int64_t panel, std::vector<PanelSegment>& segments) const;
  const double* biases(std::int64_t panel) const { return biases_.data() + panel * kPanelPixels; }
  bool has_biases() const { return has_biases_; }
  // That hold for every output channel.
  const ChannelBounds& bounds() const { return bounds_; }

 private:
  std::int16_t* mantissas(std::int64_t panel, std::int64_t pair) {
    return mantissas_.data() + (panel * pairs_ + pair) * 2 * kPanelPixels;
  }
  std::size_t index(std::int64_t panel, std::int64_t block) const {
    return static_cast<std::size_t>((panel * std::ssize(blocks_) + block) * kPanelPixels);
  }

  // The pairs of a panel's block, from its first one, outside of which its weights are zeros.
  RowRange used_pairs(std::int64_t panel, const NativeBlock& block) const;
  PanelSegment segment(std::int64_t panel, std::int64_t block, RowRange pairs) const;

  const MatrixFormat matrix_;
  const Format format_;
  const std::int64_t channels_;
  const std::vector<NativeBlock> blocks_;
  const std::int64_t segment_pairs_;
  std::int64_t pairs_ = 0;
  AlignedBuffer<std::int16_t> mantissas_;  // [panel][pair][2 * kPanelPixels]
  std::vector<double> scales_;             // [panel][block][kPanelPixels]
  std::vector<std::uint8_t> exponents_;    // likewise, of a dynamic operand
  std::vector<double> biases_;             // [panel][kPanelPixels]
  bool has_biases_ = false;
  std::vector<RowRange> used_;  // [panel][block], of constant weights
  ChannelBounds bounds_;
};

}  // namespace tessera::kernels
