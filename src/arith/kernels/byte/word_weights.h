// Weights of 8-bit products that are added in 16 bits before they are widened (byte/word_dot.h), cut in two so that no
// sum of 16 bits saturates:
//
//   w = main + excess        main    what a sum of some quads of terms holds for every moving number 0..255
//                            excess  the rest: quads of terms one by one, few of them
//
// A word is a lane of 16 bits: it takes two terms of each quad. Of a word over `together` quads the weights above 0
// and those below may each come to kWordWeightMax: 255 * 128 = 32,640.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arith/kernels/aligned_buffer.h"
#include "arith/kernels/product_parts.h"

namespace tessera::kernels {

inline constexpr std::int64_t kQuadTerms = 4;
inline constexpr std::int32_t kWordWeightMax = 128;
inline constexpr std::int64_t kWordTileChannels = 6;  // that are summed side by side

// Four terms of an output channel that are summed by themselves.
struct ExcessQuad {
  std::int32_t quad = 0;
  std::int32_t weights = 0;  // four signed bytes, the first in the lowest
};

// Weights -255..255 of an output channel, a multiple of `together` quads, become their main part, -128..127; what is
// left is added to `excess`, quads in rising order.
void split_word_weights(std::span<std::int16_t> weights, std::int64_t together,
                        std::vector<ExcessQuad>& excess);

// All output channels, in tiles of kWordTileChannels, the last of a group narrower.
struct WordWeights {
  std::int64_t together = 0;              // quads to a word, 2 or 4
  std::int64_t steps = 0;                 // of so many quads
  AlignedBuffer<std::int8_t> main;        // [tile][step][channel of the tile][quad][4]
  std::vector<ExcessQuad> excess;         // channel by channel
  std::vector<std::int32_t> excess_ends;  // of channel c: [excess_ends[c], excess_ends[c + 1])
  std::vector<std::int32_t> weight_sums;  // of each channel, less the zero points
};
// Zero points come off first. None where there is so much excess that pairs of 16 bits (dot_panel.h) are quicker.
std::optional<WordWeights> make_word_weights(const KernelImageShape& shape,
                                             const PlainWeights& weights,
                                             const std::vector<std::int32_t>& zero_points);

// The output channels of a matrix product as lanes of vectors; those behind the last are zeros.
struct WordLanes {
  static constexpr std::int64_t kTogether = 2;
  std::int64_t lanes = 0;  // of a vector
  std::int64_t steps = 0;
  AlignedBuffer<std::int8_t> main;         // [vector][quad][lane][4]
  std::vector<std::int32_t> excess_quads;  // of each excess its quad, vector by vector
  AlignedBuffer<std::int8_t> excess;       // [excess][lane][4]
  std::vector<std::int32_t> excess_ends;   // of vector v: [excess_ends[v], excess_ends[v + 1])
  std::vector<std::int32_t> weight_sums;   // of each channel, less the zero points
};
// `channels` output channels in vectors of `lanes`, 8 or 16. None as above.
struct WordLaneShape {
  std::int64_t channels = 0, lanes = 0, vectors = 0;
};
std::optional<WordLanes> make_word_lanes(const WordLaneShape& shape, const PlainWeights& weights,
                                         const std::vector<std::int32_t>& zero_points);

}  // namespace tessera::kernels
