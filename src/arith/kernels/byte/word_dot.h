// Dots of 8-bit integers that add products in 16 bits before they are widened (AVX2, AVX-512: one instruction multiplies
// unsigned by signed bytes and adds the two products of a word, which saturates):
//
//   quad      4 x unsigned       4 x signed
//   words     a b + c d          e f + g h          16 bits each; 2 or 4 quads are added before they are widened
//   sum       += both words                         32 bits
//
// Weights are cut so that no word saturates (byte/word_weights.h). Twice as many products an instruction as pairs of
// 16 bits (dot_panel.h), of which two thirds to four fifths are left behind the widening.
#pragma once

#include <cstdint>

#include "arith/kernels/byte/tiles.h"
#include "arith/kernels/byte/word_weights.h"

namespace tessera::kernels {

// Lanes of a vector, 8 or 16, where the instructions that are chosen have such a product, and none of four
// (byte/quads.h); else 0.
std::int64_t byte_word_lanes();

// Memory that may be read, whatever it holds.
struct ReadableBytes {
  const std::byte* first = nullptr;
  const std::byte* last = nullptr;  // behind it
};
// All terms of a panel, tap by tap and channel by channel, to moving[vector][quad][lane][4], `vector_bytes` from
// vector to vector; a lane is a pixel. What is behind the last term in its quad is anything.
void place_byte_words(const BytePlacement& placement, const ReadableBytes& readable,
                      std::int64_t vector_bytes, std::uint8_t* moving);

// sums[channel * kPanelPixels + pixel] = offset + Σ, modulo 2^32, of channels of WordWeights side by side.
struct ByteWordDot {
  const std::int8_t* weights = nullptr;  // main, of the first channel's tile
  std::int64_t together = 0, steps = 0;
  std::int64_t channels = 0;                  // the first begins a tile
  const ExcessQuad* excess = nullptr;         // of all channels
  const std::int32_t* excess_ends = nullptr;  // of the first channel
  const std::int32_t* offsets = nullptr;      // [channel]
  const std::uint8_t* moving = nullptr;
  std::int64_t vector_bytes = 0;
  std::int64_t vectors = 0;  // of pixels, 1..kPanelPixels / byte_word_lanes()
};
void byte_word_dot(const ByteWordDot& dot, std::int32_t* sums);

// sums[pixel * kPanelPixels + channel], modulo 2^32, of 1..kWordTileChannels pixels and the channels of some vectors
// of WordLanes.
struct ByteWordLaneDot {
  const WordLanes* weights = nullptr;
  std::int64_t first_vector = 0, vectors = 0;
  const std::uint8_t* moving = nullptr;
  std::int64_t moving_pitch = 0;  // bytes from pixel to pixel, at least those of all steps
  std::int64_t pixels = 0;
};
void byte_word_lane_dot(const ByteWordLaneDot& dot, std::int32_t* sums);

}  // namespace tessera::kernels
