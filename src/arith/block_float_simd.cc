// Block quantisation and exact sums of arrays.
//
//   blocks across rows, kTile pixels at a time:
//     pass 1   every row ─► running maximum of the exponent field, pixel by pixel ─► Es, scale
//     pass 2   two rows at a time ─► x * scale ─► clamp ─► round half even ─► pairs of mantissas
//
// A tile of 128 rows stays in the first-level cache between the passes. f16 tiles without NaN and
// infinity take the short way (the last, partial one by way of a padded copy, or with masks where
// there is AVX-512); all others go through binary32 lanes with rule 1 applied.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <optional>

#include "arith/vector_ops.h"
#include "base/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "arith/block_float_simd.cc"
#include "arith/vector_targets.h"
#include <hwy/foreach_target.h>
#include "arith/vector_lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tessera::arith {
namespace HWY_NAMESPACE {

inline constexpr std::size_t kTile = 64;  // pixels; a multiple of every number of 16-bit lanes

// What quantising needs to know of a source format.
struct Source {
  Format format;
  std::size_t bytes;
  int bias;
  float largest;  // finite
};

HWY_INLINE Source source_of(Format format) {
  const auto bytes = static_cast<std::size_t>(format_bytes(format));
  if (format == Format::kF16) return {format, bytes, 15, 65504.0f};
  const std::uint32_t largest = format == Format::kBf16 ? 0x7F7F0000u : 0x7F7FFFFFu;
  return {format, bytes, 127, f32_from_bits(largest)};
}

// Es of a block whose largest magnitude is `magnitude` (finite).
HWY_INLINE int block_exponent(float magnitude, int bias) {
  const int field = static_cast<int>(bits_of_f32(magnitude) >> 23) - (127 - bias);
  return std::max(field, 1);
}

// 2^(m-1-(Es-bias)) as a product of two factors, either of which is a normal number.
struct Scale {
  float first, second;
};

HWY_INLINE float power_of_two(int exponent) {
  return f32_from_bits(static_cast<std::uint32_t>(exponent + 127) << 23);
}

HWY_INLINE Scale block_scale(int exponent, const Source& source, int mantissa_bits) {
  const int power = mantissa_bits - 1 - (exponent - source.bias);
  const int half = power / 2;
  return {power_of_two(half), power_of_two(power - half)};
}

// Rule 1 on lanes; sets flags.
HWY_INLINE void sanitise(const Source& source, std::size_t count, float* lanes,
                         StickyFlags& flags) {
  const F32 df;
  auto any_nan = hn::Zero(df);
  auto any_infinity = hn::Zero(df);
  const auto one = hn::Set(df, 1.0f);
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    auto v = hn::Load(df, lanes + i);
    const auto is_nan = hn::IsNaN(v);
    const auto is_infinite = hn::IsInf(v);
    any_nan = hn::IfThenElse(is_nan, one, any_nan);
    any_infinity = hn::IfThenElse(is_infinite, one, any_infinity);
    v = hn::IfThenElse(is_infinite, hn::CopySign(hn::Set(df, source.largest), v), v);
    hn::Store(hn::IfThenElse(is_nan, hn::Zero(df), v), df, lanes + i);
  }
  flags.nan |= !hn::AllTrue(df, hn::Eq(any_nan, hn::Zero(df)));
  flags.infinity |= !hn::AllTrue(df, hn::Eq(any_infinity, hn::Zero(df)));
}

// Of a tile's `count` columns, those that there are in a row whose `lanes` are given.
HWY_INLINE std::uint64_t present_lanes(std::uint64_t lanes, std::size_t count) {
  return lanes & ~std::uint64_t{0} >> (kTile - count);
}

// The elements of a row that there are, to their places in `target`.
HWY_INLINE void copy_lanes(const void* row, std::uint64_t lanes, std::size_t bytes,
                           std::uint8_t* target) {
  const auto* source = static_cast<const std::uint8_t*>(row);
  while (lanes != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(lanes));
    const auto count = static_cast<std::size_t>(std::countr_one(lanes >> first));
    std::memcpy(target + first * bytes, source + first * bytes, count * bytes);
    if (first + count == kTile) return;
    lanes &= ~std::uint64_t{0} << (first + count);
  }
}

// A row's pixels [first, first + count) as sane lanes; a null row is zeros.
HWY_INLINE void load_row(const ColumnBlocks& blocks, const Source& source, std::int64_t row,
                         std::size_t first, std::size_t count, float* lanes, StickyFlags& flags) {
  const void* data = row < blocks.row_count ? blocks.rows[row] : nullptr;
  if (data == nullptr) {
    std::fill_n(lanes, kTile, 0.0f);
    return;
  }
  HWY_ALIGN std::uint8_t present[kTile * sizeof(float)] = {};
  const auto* elements = static_cast<const std::uint8_t*>(data) + first * source.bytes;
  if (blocks.lanes != nullptr) {
    copy_lanes(data, present_lanes(blocks.lanes[row], count), source.bytes, present);
    elements = present;
  }
  load_lanes(source.format, elements, count, lanes);
  sanitise(source, count, lanes, flags);
}

// Lanes times scale, clamped and rounded.
HWY_INLINE hn::Vec<I32> quantise_lanes(hn::Vec<F32> v, hn::Vec<F32> first, hn::Vec<F32> second,
                                       hn::Vec<F32> limit) {
  const auto scaled = hn::Mul(hn::Mul(v, first), second);
  return hn::NearestInt(hn::Max(hn::Min(scaled, limit), hn::Neg(limit)));
}

// 2^23 + 2^22: what is added to it is rounded to a whole number, which the lower bits of the sum then
// are, with the bits of its two's complement. Of numbers below 2^22 that are there exactly before.
inline constexpr float kRoundingAddend = 12582912.0f;
// The largest mantissas of f16 need no bound where no bit of them is rounded away.
inline constexpr int kF16SignificandBits = 11;

// f16 lanes times a scale that is one number, clamped if they have to be and rounded: mantissas in
// the lower halves of lanes.
template <bool kClamps>
HWY_INLINE hn::Vec<I32> quantise_halves(hn::Vec<F32> v, hn::Vec<F32> scale, hn::Vec<F32> limit) {
  const auto addend = hn::Set(F32(), kRoundingAddend);
  if constexpr (!kClamps) return hn::BitCast(I32(), hn::MulAdd(v, scale, addend));
  const auto scaled = hn::Max(hn::Min(hn::Mul(v, scale), limit), hn::Neg(limit));
  return hn::BitCast(I32(), hn::Add(scaled, addend));
}

// q of an even and an odd row beside each other, as the two halves of a 32-bit lane.
HWY_INLINE hn::Vec<I32> pair_lanes(hn::Vec<I32> even, hn::Vec<I32> odd) {
  return hn::Or(hn::And(even, hn::Set(I32(), 0xFFFF)), hn::ShiftLeft<16>(odd));
}

// The first `pixels` pairs, or a whole vector of them.
HWY_INLINE void store_pairs(hn::Vec<I32> pairs, std::size_t pixels, std::int16_t* target) {
  const I32 di;
#if HWY_TARGET != HWY_SCALAR
  if (pixels >= hn::Lanes(di)) {
    const hn::RepartitionToNarrow<I32> d16;
    hn::StoreU(hn::BitCast(d16, pairs), d16, target);
    return;
  }
#endif
  HWY_ALIGN std::int32_t rest[hn::MaxLanes(di)];
  hn::Store(pairs, di, rest);
  std::memcpy(target, rest, std::min(pixels, hn::Lanes(di)) * sizeof(std::int32_t));
}

// Tile [first, first + count) of any source format.
void quantise_tile(const ColumnBlocks& blocks, const Source& source, std::size_t first,
                   std::size_t count, StickyFlags& flags) {
  const F32 df;
  const std::size_t n = hn::Lanes(df);
  HWY_ALIGN float even[kTile];
  HWY_ALIGN float odd[kTile];
  HWY_ALIGN float largest[kTile] = {};
  for (std::int64_t row = 0; row < blocks.row_count; ++row) {
    load_row(blocks, source, row, first, count, even, flags);
    for (std::size_t i = 0; i < count; i += n) {
      const auto magnitude = hn::Abs(hn::Load(df, even + i));
      hn::Store(hn::Max(hn::Load(df, largest + i), magnitude), df, largest + i);
    }
  }
  HWY_ALIGN float scale_first[kTile] = {};
  HWY_ALIGN float scale_second[kTile] = {};
  for (std::size_t i = 0; i < count; ++i) {
    const int exponent = block_exponent(largest[i], source.bias);
    const Scale scale = block_scale(exponent, source, blocks.mantissa_bits);
    scale_first[i] = scale.first;
    scale_second[i] = scale.second;
    blocks.exponents[first + i] = static_cast<std::uint8_t>(exponent);
  }
  const auto limit = hn::Set(df, static_cast<float>((1 << blocks.mantissa_bits) - 1));
  for (std::int64_t row = 0; row < blocks.row_count; row += 2) {
    load_row(blocks, source, row, first, count, even, flags);
    load_row(blocks, source, row + 1, first, count, odd, flags);
    std::int16_t* target = blocks.mantissas + (row / 2) * blocks.pair_stride + 2 * first;
    for (std::size_t i = 0; i < count; i += n) {
      const auto one = hn::Load(df, scale_first + i);
      const auto two = hn::Load(df, scale_second + i);
      const auto pairs = pair_lanes(quantise_lanes(hn::Load(df, even + i), one, two, limit),
                                    quantise_lanes(hn::Load(df, odd + i), one, two, limit));
      store_pairs(pairs, count - i, target + 2 * i);
    }
  }
}

inline constexpr std::int64_t kStagedRows = 128;

#if HWY_TARGET != HWY_AVX3 && HWY_TARGET != HWY_AVX3_DL

// Rows that are not whole, staged so that whole vectors can be read.
struct alignas(64) StagedRows {
  std::uint16_t rows[kStagedRows][kTile];
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE void copy_halves(const std::uint16_t* source, std::size_t count, std::uint16_t* target) {
  std::memcpy(target, source, count * sizeof(std::uint16_t));
}
#else
// Few elements, without a call: whole vectors, the last of which begins where it ends with the elements.
HWY_INLINE void copy_halves(const std::uint16_t* source, std::size_t count, std::uint16_t* target) {
  const hn::ScalableTag<std::uint16_t> dw;
  const std::size_t n = hn::Lanes(dw);
  if (count < n) {
    std::memcpy(target, source, count * sizeof(std::uint16_t));
    return;
  }
  for (std::size_t i = 0; i + n < count; i += n)
    hn::StoreU(hn::LoadU(dw, source + i), dw, target + i);
  hn::StoreU(hn::LoadU(dw, source + count - n), dw, target + count - n);
}
#endif

// Columns that are looked at of a tile of `count`: whole vectors.
HWY_INLINE std::size_t whole_columns(std::size_t count) {
  const std::size_t n = hn::Lanes(hn::ScalableTag<std::uint16_t>());
  return (count + n - 1) / n * n;
}

// The lanes of a row that there are, others zero.
HWY_INLINE void stage_lanes(const std::uint16_t* row, std::uint64_t lanes, std::size_t count,
                            std::uint16_t* staged) {
  std::memset(staged, 0, whole_columns(count) * sizeof(std::uint16_t));
  while (lanes != 0) {
    const auto first = static_cast<std::size_t>(std::countr_zero(lanes));
    const auto count = static_cast<std::size_t>(std::countr_one(lanes >> first));
    copy_halves(row + first, count, staged + first);
    if (first + count == kTile) return;
    lanes &= ~std::uint64_t{0} << (first + count);
  }
}

// Where the rows of an f16 tile begin: whole ones where they lie, others are copied to `staged`.
class F16Tile {
 public:
  // Of more rows than kStagedRows all have to be whole.
  F16Tile(const ColumnBlocks& blocks, std::size_t first, std::size_t count, StagedRows& staged)
      : blocks_(blocks), first_(first) {
    if (blocks.row_count > kStagedRows) return;
    const std::uint64_t whole = present_lanes(~std::uint64_t{0}, whole_columns(count));
    for (std::int64_t row = 0; row < blocks.row_count; ++row) {
      const auto* const halves = static_cast<const std::uint16_t*>(blocks.rows[row]);
      const std::uint64_t lanes =
          halves == nullptr
              ? 0
              : present_lanes(blocks.lanes == nullptr ? whole : blocks.lanes[row], count);
      if (lanes == 0) {
        rows_[row] = kZeros;
      } else if (lanes == whole) {
        rows_[row] = halves + first;
      } else {
        stage_lanes(halves + first, lanes, count, staged.rows[row]);
        rows_[row] = staged.rows[row];
      }
    }
  }
  const std::uint16_t* row(std::int64_t row) const {
    if (row >= blocks_.row_count) return kZeros;
    if (blocks_.row_count <= kStagedRows) return rows_[row];
    const void* data = blocks_.rows[row];
    return data == nullptr ? kZeros : static_cast<const std::uint16_t*>(data) + first_;
  }

 private:
  HWY_ALIGN static constexpr std::uint16_t kZeros[kTile] = {};
  const ColumnBlocks& blocks_;
  std::size_t first_;
  const std::uint16_t* rows_[kStagedRows];
};

// The magnitudes of the largest elements of kVectors vectors of columns, as bits of f16.
template <std::size_t kVectors>
HWY_INLINE void largest_of_columns(const F16Tile& tile, std::int64_t rows, std::size_t first,
                                   std::uint16_t* largest) {
  const hn::ScalableTag<std::uint16_t> dw;
  const std::size_t n = hn::Lanes(dw);
  const auto magnitude_mask = hn::Set(dw, std::uint16_t{0x7FFF});
  auto left = hn::Zero(dw), right = hn::Zero(dw);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint16_t* const halves = tile.row(row) + first;
    left = hn::Max(left, hn::And(hn::LoadU(dw, halves), magnitude_mask));
    if constexpr (kVectors == 2) {
      right = hn::Max(right, hn::And(hn::LoadU(dw, halves + n), magnitude_mask));
    }
  }
  hn::Store(left, dw, largest + first);
  if constexpr (kVectors == 2) hn::Store(right, dw, largest + first + n);
}

// Of a tile's first whole_columns(), others zero. False where one is a NaN or an infinity.
HWY_INLINE bool largest_halves(const F16Tile& tile, std::int64_t rows, std::size_t count,
                               std::uint16_t* largest) {
  const hn::ScalableTag<std::int16_t> d16;
  const hn::ScalableTag<std::uint16_t> dw;
  const std::size_t n = hn::Lanes(dw);
  const std::size_t columns = whole_columns(count);
  std::size_t i = 0;
  for (; i + 2 * n <= columns; i += 2 * n) largest_of_columns<2>(tile, rows, i, largest);
  if (i < columns) largest_of_columns<1>(tile, rows, i, largest);
  std::fill(largest + columns, largest + kTile, std::uint16_t{0});
  auto all = hn::Zero(dw);
  for (i = 0; i < columns; i += n) all = hn::Max(all, hn::Load(dw, largest + i));
  // Magnitudes have no sign, so that they may be compared as signed numbers.
  const auto limit = hn::Set(d16, static_cast<std::int16_t>(kF16LargestBits));
  return hn::AllFalse(d16, hn::Gt(hn::BitCast(d16, all), limit));
}

// The exponents of blocks with such largest elements, and 2^(mantissa_bits - 1 - (exponent - 15)).
HWY_INLINE void exponents_of_largest(const std::uint16_t* largest, int mantissa_bits,
                                     std::uint8_t* exponents, float* scale) {
  const F32 df;
  const I32 di;
  const U16Half dh;
  const hn::Rebind<std::uint8_t, I32> db;
  const auto one = hn::Set(di, 1);
  const auto field_of_one = hn::Set(di, mantissa_bits - 1 + 15 + 127);
  for (std::size_t i = 0; i < kTile; i += hn::Lanes(df)) {
    const auto exponent =
        hn::Max(hn::ShiftRight<10>(hn::PromoteTo(di, hn::Load(dh, largest + i))), one);
    hn::Store(hn::BitCast(df, hn::ShiftLeft<23>(hn::Sub(field_of_one, exponent))), df, scale + i);
    hn::StoreU(hn::DemoteTo(db, exponent), db, exponents + i);
  }
}

// Of a row's mantissas in the lower halves of lanes: the even row's there, the odd row's in the upper halves.
HWY_INLINE hn::Vec<I32> pair_lower_halves(hn::Vec<I32> even, hn::Vec<I32> odd) {
#if HWY_TARGET == HWY_SCALAR
  return pair_lanes(even, odd);
#else
  const hn::ScalableTag<std::int16_t> d16;
  return hn::BitCast(I32(),
                     hn::OddEven(hn::BitCast(d16, hn::ShiftLeft<16>(odd)), hn::BitCast(d16, even)));
#endif
}

// A tile of f16. False, with no mantissa written, when it has a NaN or an infinity.
template <bool kClamps>
bool quantise_f16_tile(const ColumnBlocks& blocks, const F16Tile& tile, std::size_t first,
                       std::size_t count) {
  const F32 df;
  const U16Half dh;
  HWY_ALIGN std::uint16_t largest[kTile];
  if (!largest_halves(tile, blocks.row_count, count, largest)) return false;
  HWY_ALIGN float scale[kTile];
  HWY_ALIGN std::uint8_t exponents[kTile];
  exponents_of_largest(largest, blocks.mantissa_bits, exponents, scale);
  std::memcpy(blocks.exponents + first, exponents, count);
  const auto limit = hn::Set(df, static_cast<float>((1 << blocks.mantissa_bits) - 1));
  for (std::int64_t row = 0; row < blocks.row_count; row += 2) {
    const std::uint16_t* even = tile.row(row);
    const std::uint16_t* odd = tile.row(row + 1);
    std::int16_t* target = blocks.mantissas + (row / 2) * blocks.pair_stride + 2 * first;
    for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
      const auto factor = hn::Load(df, scale + i);
      const auto pairs = pair_lower_halves(
          quantise_halves<kClamps>(float_from_f16(hn::LoadU(dh, even + i)), factor, limit),
          quantise_halves<kClamps>(float_from_f16(hn::LoadU(dh, odd + i)), factor, limit));
      store_pairs(pairs, count - i, target + 2 * i);
    }
  }
  return true;
}

#else

// Rows of f16 where they lie: masks leave out lanes that are not there.
class MaskedRows {
 public:
  MaskedRows(const ColumnBlocks& blocks, std::size_t first, std::size_t count)
      : blocks_(blocks), first_(first), count_(count) {}
  std::uint64_t lanes(std::int64_t row) const {
    if (row >= blocks_.row_count || blocks_.rows[row] == nullptr) return 0;
    return present_lanes(blocks_.lanes == nullptr ? ~std::uint64_t{0} : blocks_.lanes[row], count_);
  }
  // Of a row without a lane, somewhere that can be read.
  const std::uint16_t* row(std::int64_t row, std::uint64_t lanes) const {
    if (lanes == 0) return kZeros;
    return static_cast<const std::uint16_t*>(blocks_.rows[row]) + first_;
  }

 private:
  HWY_ALIGN static constexpr std::uint16_t kZeros[kTile] = {};
  const ColumnBlocks& blocks_;
  std::size_t first_;
  std::size_t count_;
};

// 16 elements times `factor`, at most `limit` either way, rounded into the lower halves of lanes.
template <bool kClamps>
HWY_INLINE __m512i masked_mantissas(__m256i halves, __m512 factor, __m512 limit) {
  constexpr int kLesserMagnitude = 2;  // with the sign of the first
  const __m512 x = _mm512_cvtph_ps(halves);
  const __m512 addend = _mm512_set1_ps(kRoundingAddend);
  if constexpr (!kClamps) return _mm512_castps_si512(_mm512_fmadd_ps(x, factor, addend));
  const __m512 scaled = _mm512_range_ps(_mm512_mul_ps(x, factor), limit, kLesserMagnitude);
  return _mm512_castps_si512(_mm512_add_ps(scaled, addend));
}

// The mantissas of two rows, whole ones or those of their lanes that there are.
template <bool kClamps, bool kWhole>
HWY_INLINE void masked_pairs(const std::uint16_t* even, const std::uint16_t* odd,
                             std::uint64_t even_lanes, std::uint64_t odd_lanes,
                             const std::int32_t* scale, __m512 limit, std::size_t count,
                             std::int16_t* target) {
  const auto load = [](std::uint64_t lanes, const std::uint16_t* halves) HWY_ATTR {
    if constexpr (kWhole) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(halves));
    return _mm256_maskz_loadu_epi16(static_cast<__mmask16>(lanes), halves);
  };
  for (std::size_t i = 0; i < (kWhole ? kTile : count); i += 16) {
    const __m512 factor = _mm512_castsi512_ps(_mm512_load_si512(scale + i));
    const __m512i a = masked_mantissas<kClamps>(load(even_lanes >> i, even + i), factor, limit);
    const __m512i b = masked_mantissas<kClamps>(load(odd_lanes >> i, odd + i), factor, limit);
    const __m512i pairs = _mm512_mask_blend_epi16(0xAAAAAAAA, a, _mm512_slli_epi32(b, 16));
    if constexpr (kWhole) {
      _mm512_storeu_si512(target + 2 * i, pairs);
    } else {
      store_pairs(hn::Vec<I32>{pairs}, count - i, target + 2 * i);
    }
  }
}

// The same as quantise_f16_tile(), without a copy of rows that are not whole.
template <bool kClamps>
bool quantise_masked_tile(const ColumnBlocks& blocks, std::size_t first, std::size_t count) {
  const MaskedRows rows(blocks, first, count);
  const __m512i magnitude_mask = _mm512_set1_epi16(0x7FFF);
  __m512i low = _mm512_setzero_si512();
  __m512i high = _mm512_setzero_si512();
  for (std::int64_t row = 0; row < blocks.row_count; ++row) {
    const std::uint64_t lanes = rows.lanes(row);
    const std::uint16_t* halves = rows.row(row, lanes);
    const __m512i x = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(lanes), halves);
    const __m512i y = _mm512_maskz_loadu_epi16(static_cast<__mmask32>(lanes >> 32), halves + 32);
    low = _mm512_max_epu16(low, _mm512_and_si512(x, magnitude_mask));
    high = _mm512_max_epu16(high, _mm512_and_si512(y, magnitude_mask));
  }
  const __m512i any = _mm512_max_epu16(low, high);
  if (_mm512_cmpgt_epu16_mask(any, _mm512_set1_epi16(kF16LargestBits)) != 0) return false;
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i fields[2] = {_mm512_max_epu16(_mm512_srli_epi16(low, 10), one),
                             _mm512_max_epu16(_mm512_srli_epi16(high, 10), one)};
  HWY_ALIGN std::uint8_t exponents[kTile];
  HWY_ALIGN std::int32_t scale[kTile];  // bits of 2^(m - 1 - (Es - 15)) in binary32
  const __m512i field_of_one = _mm512_set1_epi32(blocks.mantissa_bits - 1 + 15 + 127);
  for (std::size_t half = 0; half < 2; ++half) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(exponents + 32 * half),
                       _mm512_cvtepi16_epi8(fields[half]));
    const __m512i first_half = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(fields[half]));
    const __m512i other_half = _mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(fields[half], 1));
    _mm512_store_si512(scale + 32 * half,
                       _mm512_slli_epi32(_mm512_sub_epi32(field_of_one, first_half), 23));
    _mm512_store_si512(scale + 32 * half + 16,
                       _mm512_slli_epi32(_mm512_sub_epi32(field_of_one, other_half), 23));
  }
  std::memcpy(blocks.exponents + first, exponents, count);
  const __m512 limit = _mm512_set1_ps(static_cast<float>((1 << blocks.mantissa_bits) - 1));
  for (std::int64_t row = 0; row < blocks.row_count; row += 2) {
    const std::uint64_t even_lanes = rows.lanes(row), odd_lanes = rows.lanes(row + 1);
    const std::uint16_t* even = rows.row(row, even_lanes);
    const std::uint16_t* odd = rows.row(row + 1, odd_lanes);
    std::int16_t* target = blocks.mantissas + (row / 2) * blocks.pair_stride + 2 * first;
    if ((even_lanes & odd_lanes) == ~std::uint64_t{0}) {
      masked_pairs<kClamps, true>(even, odd, even_lanes, odd_lanes, scale, limit, count, target);
    } else {
      masked_pairs<kClamps, false>(even, odd, even_lanes, odd_lanes, scale, limit, count, target);
    }
  }
  return true;
}

#endif

void quantise_all_columns(const ColumnBlocks& blocks, StickyFlags& flags) {
  const Source source = source_of(blocks.format);
  const auto pixels = static_cast<std::size_t>(blocks.pixels);
  for (std::size_t first = 0; first < pixels; first += kTile) {
    const std::size_t count = std::min(kTile, pixels - first);
    const bool where_they_lie = count == kTile && blocks.lanes == nullptr;
    const bool fits = where_they_lie || blocks.row_count <= kStagedRows;
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
    (void)fits;
    if (blocks.format == Format::kF16) {
      const bool done = blocks.mantissa_bits < kF16SignificandBits
                            ? quantise_masked_tile<true>(blocks, first, count)
                            : quantise_masked_tile<false>(blocks, first, count);
      if (done) continue;
    }
#else
    if (blocks.format == Format::kF16 && fits) {
      StagedRows staged;
      const F16Tile tile(blocks, first, count, staged);
      const bool done = blocks.mantissa_bits < kF16SignificandBits
                            ? quantise_f16_tile<true>(blocks, tile, first, count)
                            : quantise_f16_tile<false>(blocks, tile, first, count);
      if (done) continue;
    }
#endif
    quantise_tile(blocks, source, first, count, flags);
  }
}

// One block of contiguous f16. No exponent, with no mantissa written, when it has a NaN or an infinity.
template <bool kClamps>
std::optional<int> quantise_f16_run(const std::uint16_t* halves, std::size_t count,
                                    int mantissa_bits, std::int16_t* mantissas) {
  const hn::ScalableTag<std::uint16_t> dw;
  const F32 df;
  const I32 di;
  const U16Half dh;
  const I16Half d16;
  const std::size_t wide = hn::Lanes(dw), n = hn::Lanes(df);
  const auto magnitude_mask = hn::Set(dw, std::uint16_t{0x7FFF});
  auto running = hn::Zero(dw);
  HWY_ALIGN std::uint16_t rest[hn::MaxLanes(dw)] = {};
  std::size_t i = 0;
  for (; i + wide <= count; i += wide) {
    running = hn::Max(running, hn::And(hn::LoadU(dw, halves + i), magnitude_mask));
  }
  std::memcpy(rest, halves + i, (count - i) * sizeof(std::uint16_t));
  running = hn::Max(running, hn::And(hn::Load(dw, rest), magnitude_mask));
  HWY_ALIGN std::uint16_t candidates[hn::MaxLanes(dw)];
  hn::Store(running, dw, candidates);
  const std::uint16_t largest = *std::max_element(candidates, candidates + wide);
  if (largest > kF16LargestBits) return std::nullopt;
  const int exponent = std::max(largest >> 10, 1);
  const auto scale = hn::Set(df, power_of_two(mantissa_bits - 1 - (exponent - 15)));
  const auto limit = hn::Set(df, static_cast<float>((1 << mantissa_bits) - 1));
  const auto zero = hn::BitCast(di, hn::Set(df, kRoundingAddend));
  const auto quantised = [&](hn::Vec<U16Half> elements) HWY_ATTR {
    const auto q = quantise_halves<kClamps>(float_from_f16(elements), scale, limit);
    return hn::DemoteTo(d16, hn::Sub(q, zero));
  };
  for (i = 0; i + n <= count; i += n) {
    hn::StoreU(quantised(hn::LoadU(dh, halves + i)), d16, mantissas + i);
  }
  if (i == count) return exponent;
  HWY_ALIGN std::uint16_t last[hn::MaxLanes(df)] = {};
  HWY_ALIGN std::int16_t lanes[hn::MaxLanes(df)];
  std::memcpy(last, halves + i, (count - i) * sizeof(std::uint16_t));
  hn::Store(quantised(hn::Load(dh, last)), d16, lanes);
  std::memcpy(mantissas + i, lanes, (count - i) * sizeof(std::int16_t));
  return exponent;
}

// One block of contiguous elements.
int quantise_run(const RunBlocks& blocks, const Source& source, std::size_t first,
                 std::size_t count, StickyFlags& flags) {
  const F32 df;
  const std::size_t n = hn::Lanes(df);
  const auto* elements = static_cast<const std::uint8_t*>(blocks.elements) + first * source.bytes;
  if (source.format == Format::kF16) {
    const auto* const halves = static_cast<const std::uint16_t*>(blocks.elements) + first;
    std::int16_t* const mantissas = blocks.mantissas + first;
    const std::optional<int> done =
        blocks.mantissa_bits < kF16SignificandBits
            ? quantise_f16_run<true>(halves, count, blocks.mantissa_bits, mantissas)
            : quantise_f16_run<false>(halves, count, blocks.mantissa_bits, mantissas);
    if (done) return *done;
  }
  FloatBuffer x;
  auto largest = hn::Zero(df);
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t part = std::min(kChunk, count - i);
    load_lanes(source.format, elements + i * source.bytes, part, x.lanes);
    sanitise(source, part, x.lanes, flags);
    for (std::size_t j = 0; j < part; j += n) {
      largest = hn::Max(largest, hn::Abs(hn::Load(df, x.lanes + j)));
    }
  }
  HWY_ALIGN float candidates[hn::MaxLanes(F32())];
  hn::Store(largest, df, candidates);
  const int exponent = block_exponent(*std::max_element(candidates, candidates + n), source.bias);
  const Scale scale = block_scale(exponent, source, blocks.mantissa_bits);
  const auto limit = hn::Set(df, static_cast<float>((1 << blocks.mantissa_bits) - 1));
  const I16Half d16;
  for (std::size_t i = 0; i < count; i += kChunk) {
    const std::size_t part = std::min(kChunk, count - i);
    if (count > kChunk) {
      load_lanes(source.format, elements + i * source.bytes, part, x.lanes);
      sanitise(source, part, x.lanes, flags);
    }
    for (std::size_t j = 0; j < part; j += n) {
      const auto q =
          hn::DemoteTo(d16, quantise_lanes(hn::Load(df, x.lanes + j), hn::Set(df, scale.first),
                                           hn::Set(df, scale.second), limit));
      HWY_ALIGN std::int16_t lanes[hn::MaxLanes(F32())];
      hn::Store(q, d16, lanes);
      std::memcpy(blocks.mantissas + first + i + j, lanes,
                  std::min(n, part - j) * sizeof(std::int16_t));
    }
  }
  return exponent;
}

void quantise_all_runs(const RunBlocks& blocks, StickyFlags& flags) {
  const Source source = source_of(blocks.format);
  for (std::int64_t first = 0; first < blocks.count; first += blocks.block_size) {
    const std::int64_t count = std::min(blocks.block_size, blocks.count - first);
    const int exponent = quantise_run(blocks, source, static_cast<std::size_t>(first),
                                      static_cast<std::size_t>(count), flags);
    blocks.exponents[first / blocks.block_size] = static_cast<std::uint8_t>(exponent);
  }
}

// The sum of at most 4096 f16 elements: exact in binary64 (4096 * 2^16 * 2^24 = 2^52). Not finite
// where an element is not.
double sum_f16_part(const std::uint16_t* elements, std::size_t count) {
  const F64 dd;
  const F32 df;
  const U16Half dh;
  const std::size_t n = hn::Lanes(df);
  auto first = hn::Zero(dd);
  auto second = hn::Zero(dd);
  const auto add = [&](hn::Vec<U16Half> halves) HWY_ATTR {
    const auto x = float_from_f16(halves);
#if HWY_TARGET == HWY_SCALAR
    first = hn::Add(first, hn::PromoteTo(dd, x));
#else
    const F32Half narrow;
    first = hn::Add(first, hn::PromoteTo(dd, hn::LowerHalf(narrow, x)));
    second = hn::Add(second, hn::PromoteTo(dd, hn::UpperHalf(narrow, x)));
#endif
  };
  std::size_t i = 0;
  for (; i + n <= count; i += n) add(hn::LoadU(dh, elements + i));
  if (i < count) {
    HWY_ALIGN std::uint16_t rest[hn::MaxLanes(F32())] = {};
    std::memcpy(rest, elements + i, (count - i) * sizeof(std::uint16_t));
    add(hn::Load(dh, rest));
  }
  HWY_ALIGN double lanes[hn::MaxLanes(F64())];
  hn::Store(hn::Add(first, second), dd, lanes);
  double total = 0.0;
  for (std::size_t lane = 0; lane < hn::Lanes(dd); ++lane) total += lanes[lane];
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::arith
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::arith {

HWY_EXPORT(quantise_all_columns);
HWY_EXPORT(quantise_all_runs);
HWY_EXPORT(sum_f16_part);

namespace simd {
namespace {

void check_mantissa_bits(int mantissa_bits) {
  TESSERA_CHECK(mantissa_bits >= kMantissaBitsMin && mantissa_bits <= kMantissaBitsMax,
                "{} mantissa bits; {}..{} are allowed", mantissa_bits, kMantissaBitsMin,
                kMantissaBitsMax);
}

}  // namespace

void quantise_columns(const ColumnBlocks& blocks, StickyFlags& flags) {
  check_mantissa_bits(blocks.mantissa_bits);
  exponent_bias(blocks.format);  // checks that it is a source format
  TESSERA_CHECK(blocks.lanes == nullptr || blocks.pixels <= 64, "lanes of {} pixels",
                blocks.pixels);
  TESSERA_CHECK(blocks.pair_stride >= 2 * blocks.pixels,
                "pair stride {} is less than 2 * {} pixels", blocks.pair_stride, blocks.pixels);
  HWY_DYNAMIC_DISPATCH(quantise_all_columns)(blocks, flags);
}

void quantise_runs(const RunBlocks& blocks, StickyFlags& flags) {
  check_mantissa_bits(blocks.mantissa_bits);
  exponent_bias(blocks.format);
  TESSERA_CHECK(blocks.block_size >= 1, "blocks of {} elements", blocks.block_size);
  HWY_DYNAMIC_DISPATCH(quantise_all_runs)(blocks, flags);
}

void add_to_sum(const Operand& in, std::int64_t count, ElementSum& sum) {
  if (in.format != Format::kF16 || in.stride != 1) return ref::add_to_sum(in, count, sum);
  constexpr std::int64_t kPart = 4096;
  const auto* elements = static_cast<const std::uint16_t*>(in.data);
  for (std::int64_t first = 0; first < count; first += kPart) {
    const std::int64_t part = std::min(kPart, count - first);
    const double total =
        HWY_DYNAMIC_DISPATCH(sum_f16_part)(elements + first, static_cast<std::size_t>(part));
    if (std::isfinite(total)) {
      sum.add_units(static_cast<std::int64_t>(std::ldexp(total, 24)));
    } else {
      ref::add_to_sum({.format = in.format, .data = elements + first, .stride = 1}, part, sum);
    }
  }
}

}  // namespace simd
}  // namespace tessera::arith
#endif  // HWY_ONCE
