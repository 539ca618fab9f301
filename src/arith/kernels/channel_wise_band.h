// The usual channel-wise convolutions, one channel of a band of output rows at a time, in vectors
// from the samples to the bytes that are stored:
//
//   rows of f16, i8 or u8 ──► padded planes of binary32 ──► sums under all taps ──► f16 | i8 | u8
//
// A vector of sums lies within one output row. What it stores beyond the row's end is overwritten
// by the next row, so results lie behind each other without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arith/format.h"

namespace tessera::kernels {

// Rows of samples to the planes. Vectors are stored whole, zeros behind the last sample: rows must
// be loaded in order, and kBandSlack floats behind the last one are spare.
inline constexpr std::int64_t kBandSlack = 64;
struct SampleRows {
  Format format = Format::kF16;  // f16, i8, u8
  std::int32_t zero_point = 0;   // comes off integers
  const std::byte* source = nullptr;
  std::int64_t source_pitch = 0;
  const std::byte* end = nullptr;  // memory may be read up to here
  std::int64_t rows = 0;
  std::int64_t count = 0;  // samples of a row
  // All samples, or those of even index, and how many of them.
  float* target = nullptr;
  std::int64_t target_count = 0;
  float* odd = nullptr;  // null: every sample goes to `target`
  std::int64_t odd_count = 0;
  std::int64_t target_pitch = 0;  // floats from row to row
};
void load_sample_rows(const SampleRows& rows);

// A vector of sums: reads `from` floats behind a tap's first sample, stores `to` elements behind
// the first result. A group of them is worked on together.
struct BandVector {
  std::int32_t from = 0, to = 0;
};
inline constexpr std::size_t kBandGroup = 4;
// Elements of one vector: vectors of a row begin that far from each other.
std::int64_t band_vector_lanes();

struct BandSums {
  const float* samples = nullptr;
  std::span<const std::int32_t> taps;   // of the first sample under each tap
  const float* weights = nullptr;       // one per tap
  std::span<const BandVector> vectors;  // in the order of their stores; whole groups
  // For square kernels: a vector stands for one in each of kBandGroup output rows, which
  // read each input row together. Taps are those of the first row.
  bool squares = false;
  std::int64_t kernel = 0, stride_h = 1;          // kernel x kernel taps
  std::span<const std::int32_t> input_rows = {};  // of the first sample of each row that is read
  std::int32_t output_pitch = 0;                  // elements from row to row
};
// Kernels 3 x 3 and 5 x 5 without dilation, row strides 1 and 2.
inline bool is_square_kernel(std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride_h) {
  return kernel_h == kernel_w && (kernel_h == 3 || kernel_h == 5) && stride_h <= 2;
}
// Input rows that kBandGroup output rows read.
inline std::int64_t square_input_rows(std::int64_t kernel, std::int64_t stride_h) {
  return (static_cast<std::int64_t>(kBandGroup) - 1) * stride_h + kernel;
}

// f16 samples: binary32 sums in the order of the taps, rounded once.
struct HalfBand {
  float bias = 0.0f;
  // A sum at most `lowest` becomes `lowest`, one at least `highest` becomes `highest`.
  bool clamps = false;
  float lowest = 0.0f, highest = 0.0f;
};
void sum_half_band(const BandSums& sums, const HalfBand& finish, std::uint16_t* out);

// Integer samples: exact sums (at most 256 taps), re-quantised (arith/integer.h) and clamped.
struct ByteBand {
  std::int32_t bias = 0;
  float multiplier = 1.0f;
  std::int32_t output_zero_point = 0;    // within +-2^16
  std::int32_t lowest = 0, highest = 0;  // of the result, within its format
  bool to_unsigned = false;
};
void sum_byte_band(const BandSums& sums, const ByteBand& finish, std::byte* out);

// Elements i of each part behind each other: `parts` of them, `count` elements each, `pitch` bytes apart.
struct Interleaving {
  const std::byte* first = nullptr;
  std::int64_t pitch = 0;
  std::int64_t parts = 0;
  std::int64_t count = 0;
};
// `element` is 1 or 2 bytes. Writes parts * count elements and reads no others.
void interleave(const Interleaving& from, std::int64_t element, std::byte* out);

}  // namespace tessera::kernels
