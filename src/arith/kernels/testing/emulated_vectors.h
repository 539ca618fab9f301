// The AVX-512 instructions that the sources of tile/intrinsics.h take, one lane after the other in
// portable C++. Results are those of the processor in its default state (rounding to nearest, ties
// to even; subnormal numbers kept), bit for bit, but for the payload of a NaN that a sum, a product
// or a fused product gives: of several NaN operands the compiler may put any first.
// tile_instructions_test holds them equal to the processor's where it has them.
//
// Lanes of "128 bits" in names of the manual are called quarters here.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "arith/kernels/testing/emulated_registers.h"

namespace tessera::kernels::emulated {

using Integers = Register<std::int64_t, 64>;

constexpr std::size_t kQuarterBytes = 16;

inline std::int32_t word_of_float(float value) {
  const float rounded = std::nearbyint(value);
  const bool fits = rounded >= -0x1p31f && rounded < 0x1p31f;  // not so for a NaN
  return fits ? static_cast<std::int32_t>(rounded) : std::numeric_limits<std::int32_t>::min();
}
inline float float_of_double(double value) {
  if (!std::isnan(value)) return static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits >> 63) << 31 | 0x7FC00000u |
                              static_cast<std::uint32_t>(bits >> 29 & 0x3FFFFF));
}
template <typename To, typename From>
To saturate(From value) {
  return static_cast<To>(
      std::clamp<From>(value, std::numeric_limits<To>::min(), std::numeric_limits<To>::max()));
}

// Quarter by quarter, numbers of `a` narrowed with saturation, then those of `b`.
template <typename To, typename From>
Integers pack(const Integers& a, const Integers& b) {
  const auto first = lanes_of<From>(a), second = lanes_of<From>(b);
  constexpr std::size_t kResults = kQuarterBytes / sizeof(To), kHalf = kResults / 2;
  return generate<Integers, To>([&](std::size_t i) {
    const std::size_t at = i / kResults * kHalf + i % kHalf;
    return saturate<To>(i % kResults < kHalf ? first[at] : second[at]);
  });
}
// Quarter by quarter, the lanes of `a` and `b` in turn, from the lane `begin` of the quarter on.
template <typename T>
Integers interleave(const Integers& a, const Integers& b, std::size_t begin) {
  const auto first = lanes_of<T>(a), second = lanes_of<T>(b);
  constexpr std::size_t kLanes = kQuarterBytes / sizeof(T);
  return generate<Integers, T>([&](std::size_t i) {
    const std::size_t at = i / kLanes * kLanes + begin + i % kLanes / 2;
    return i % 2 == 0 ? first[at] : second[at];
  });
}
// `T` is the unsigned form; a count of all bits or more leaves none.
template <typename T>
Integers shift_left(const Integers& a, unsigned count) {
  return each_lane<T>(a, [=](T x) { return count < 8 * sizeof(T) ? x << count : 0; });
}
template <typename T>
Integers shift_right(const Integers& a, unsigned count) {
  return each_lane<T>(a, [=](T x) { return count < 8 * sizeof(T) ? x >> count : 0; });
}
template <typename T, typename Register>
Register add(const Register& a, const Register& b) {
  return each_lane<T>(a, b, [](T x, T y) { return x + y; });
}
template <typename T, typename Register>
Register subtract(const Register& a, const Register& b) {
  return each_lane<T>(a, b, [](T x, T y) { return x - y; });
}
template <typename T, typename Register>
Register multiply(const Register& a, const Register& b) {
  return each_lane<T>(a, b, [](T x, T y) { return x * y; });
}
// The second operand where neither is larger (equal, or one is a NaN).
template <typename T, typename Register>
Register largest(const Register& a, const Register& b) {
  return each_lane<T>(a, b, [](T x, T y) { return x > y ? x : y; });
}
template <typename T, typename Register>
Register smallest(const Register& a, const Register& b) {
  return each_lane<T>(a, b, [](T x, T y) { return x < y ? x : y; });
}

namespace instructions {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the processor's names.

constexpr int _MM_HINT_T0 = 3;
constexpr int _MM_HINT_T1 = 2;
inline void _mm_prefetch(const void*, int) {}

// ---- moves and casts

inline __m512i _mm512_setzero_si512() {
  return generate<__m512i, std::uint8_t>([](std::size_t) { return 0; });
}
inline __m512i _mm512_set1_epi8(char x) {
  return generate<__m512i, char>([=](std::size_t) { return x; });
}
inline __m512i _mm512_set1_epi16(short x) {
  return generate<__m512i, short>([=](std::size_t) { return x; });
}
inline __m512i _mm512_set1_epi32(int x) {
  return generate<__m512i, int>([=](std::size_t) { return x; });
}
inline __m512 _mm512_set1_ps(float x) {
  return generate<__m512, float>([=](std::size_t) { return x; });
}
inline __m512d _mm512_set1_pd(double x) {
  return generate<__m512d, double>([=](std::size_t) { return x; });
}
inline __m128i _mm_set1_epi16(short x) {
  return generate<__m128i, short>([=](std::size_t) { return x; });
}
template <typename... Bytes>
__m128i _mm_setr_epi8(Bytes... bytes) {
  static_assert(sizeof...(bytes) == sizeof(__m128i));
  return register_of<__m128i, char>({static_cast<char>(bytes)...});
}
template <typename... Words>
__m512i _mm512_setr_epi64(Words... words) {
  static_assert(sizeof...(words) == sizeof(__m512i) / sizeof(std::int64_t));
  return register_of<__m512i, std::int64_t>({words...});
}
inline __m256i _mm256_set_m128i(__m128i high, __m128i low) {
  __m256i both = widen<__m256i>(low);
  std::memcpy(both.bytes.data() + sizeof low, high.bytes.data(), sizeof high);
  return both;
}
inline __m512i _mm512_broadcast_i32x4(__m128i a) {
  const auto lanes = lanes_of<std::uint32_t>(a);
  return generate<__m512i, std::uint32_t>([&](std::size_t i) { return lanes[i % lanes.size()]; });
}

inline __m512i _mm512_castsi256_si512(__m256i a) { return widen<__m512i>(a); }
inline __m512 _mm512_castps256_ps512(__m256 a) { return widen<__m512>(a); }
inline __m256i _mm512_castsi512_si256(__m512i a) { return part<__m256i>(a, 0); }
inline __m128i _mm256_castsi256_si128(__m256i a) { return part<__m128i>(a, 0); }
inline int _mm_cvtsi128_si32(__m128i a) { return lanes_of<int>(a)[0]; }

inline __m128i _mm512_extracti32x4_epi32(__m512i a, int index) {
  return part<__m128i>(a, index & 3);
}
inline __m256i _mm512_extracti64x4_epi64(__m512i a, int index) {
  return part<__m256i>(a, index & 1);
}
inline __m128i _mm256_extracti128_si256(__m256i a, int index) {
  return part<__m128i>(a, index & 1);
}
inline __m512i _mm512_inserti64x4(__m512i a, __m256i b, int index) {
  std::memcpy(a.bytes.data() + static_cast<std::size_t>(index & 1) * sizeof b, b.bytes.data(),
              sizeof b);
  return a;
}
inline __m512 _mm512_insertf32x8(__m512 a, __m256 b, int index) {
  std::memcpy(a.bytes.data() + static_cast<std::size_t>(index & 1) * sizeof b, b.bytes.data(),
              sizeof b);
  return a;
}

inline __m512i _mm512_mask_mov_epi8(__m512i other, __mmask64 mask, __m512i a) {
  return blend<std::uint8_t>(other, mask, a);
}
inline __m512i _mm512_maskz_mov_epi32(__mmask16 mask, __m512i a) {
  return blend<std::uint32_t>(_mm512_setzero_si512(), mask, a);
}
inline __m512 _mm512_maskz_mov_ps(__mmask16 mask, __m512 a) {
  return blend<float>(_mm512_set1_ps(0.0f), mask, a);
}

// ---- memory

inline __m512i _mm512_load_si512(const void* from) { return load_aligned<__m512i>(from); }
inline __m512i _mm512_loadu_si512(const void* from) { return load<__m512i>(from); }
inline __m512d _mm512_loadu_pd(const void* from) { return load<__m512d>(from); }
inline void _mm512_store_si512(void* to, __m512i a) { store_aligned(to, a); }
inline void _mm512_storeu_si512(void* to, __m512i a) { store(to, a); }
inline void _mm512_storeu_pd(void* to, __m512d a) { store(to, a); }
inline void _mm256_store_si256(void* to, __m256i a) { store_aligned(to, a); }
inline void _mm256_storeu_si256(void* to, __m256i a) { store(to, a); }
inline void _mm_storeu_si128(void* to, __m128i a) { store(to, a); }

inline __m512i _mm512_mask_loadu_epi8(__m512i other, __mmask64 mask, const void* from) {
  return masked_load<std::uint8_t>(other, mask, from);
}
inline __m512i _mm512_maskz_loadu_epi8(__mmask64 mask, const void* from) {
  return masked_load<std::uint8_t>(_mm512_setzero_si512(), mask, from);
}
inline __m512i _mm512_maskz_loadu_epi16(__mmask32 mask, const void* from) {
  return masked_load<std::uint16_t>(_mm512_setzero_si512(), mask, from);
}
inline void _mm512_mask_storeu_epi8(void* to, __mmask64 mask, __m512i a) {
  masked_store<std::uint8_t>(to, mask, a);
}
inline void _mm256_mask_storeu_epi16(void* to, __mmask16 mask, __m256i a) {
  masked_store<std::uint16_t>(to, mask, a);
}
inline void _mm512_mask_storeu_ps(void* to, __mmask16 mask, __m512 a) {
  masked_store<float>(to, mask, a);
}

// ---- order of lanes

inline __m512i _mm512_unpacklo_epi8(__m512i a, __m512i b) {
  return interleave<std::uint8_t>(a, b, 0);
}
inline __m512i _mm512_unpackhi_epi8(__m512i a, __m512i b) {
  return interleave<std::uint8_t>(a, b, 8);
}
inline __m512i _mm512_unpacklo_epi16(__m512i a, __m512i b) {
  return interleave<std::uint16_t>(a, b, 0);
}
inline __m512i _mm512_unpackhi_epi16(__m512i a, __m512i b) {
  return interleave<std::uint16_t>(a, b, 4);
}
inline __m512i _mm512_shuffle_epi8(__m512i a, __m512i order) {
  const auto bytes = lanes_of<std::uint8_t>(a), places = lanes_of<std::uint8_t>(order);
  return generate<__m512i, std::uint8_t>([&](std::size_t i) {
    const std::size_t quarter = i / kQuarterBytes * kQuarterBytes;
    return (places[i] & 0x80) != 0 ? 0 : bytes[quarter + places[i] % kQuarterBytes];
  });
}
inline __m512i _mm512_permutexvar_epi64(__m512i order, __m512i a) {
  const auto lanes = lanes_of<std::uint64_t>(a), places = lanes_of<std::uint64_t>(order);
  return generate<__m512i, std::uint64_t>([&](std::size_t i) { return lanes[places[i] & 7]; });
}
inline __m512i _mm512_permutex2var_epi64(__m512i a, __m512i order, __m512i b) {
  const auto first = lanes_of<std::uint64_t>(a), second = lanes_of<std::uint64_t>(b);
  const auto places = lanes_of<std::uint64_t>(order);
  return generate<__m512i, std::uint64_t>([&](std::size_t i) {
    return (places[i] & 8) == 0 ? first[places[i] & 7] : second[places[i] & 7];
  });
}

// ---- integers

inline __m512i _mm512_add_epi16(__m512i a, __m512i b) { return add<std::uint16_t>(a, b); }
inline __m512i _mm512_add_epi32(__m512i a, __m512i b) { return add<std::uint32_t>(a, b); }
inline __m512i _mm512_sub_epi16(__m512i a, __m512i b) { return subtract<std::uint16_t>(a, b); }
inline __m512i _mm512_sub_epi32(__m512i a, __m512i b) { return subtract<std::uint32_t>(a, b); }
inline __m512i _mm512_mullo_epi32(__m512i a, __m512i b) { return multiply<std::uint32_t>(a, b); }

inline __m512i _mm512_slli_epi16(__m512i a, unsigned n) { return shift_left<std::uint16_t>(a, n); }
inline __m512i _mm512_slli_epi32(__m512i a, unsigned n) { return shift_left<std::uint32_t>(a, n); }
inline __m512i _mm512_slli_epi64(__m512i a, unsigned n) { return shift_left<std::uint64_t>(a, n); }
inline __m512i _mm512_srli_epi16(__m512i a, unsigned n) { return shift_right<std::uint16_t>(a, n); }
inline __m512i _mm512_srli_epi32(__m512i a, unsigned n) { return shift_right<std::uint32_t>(a, n); }
inline __m512i _mm512_srai_epi16(__m512i a, unsigned n) {
  return each_lane<std::int16_t>(a, [=](std::int16_t x) { return x >> std::min(n, 15u); });
}

inline __m512i _mm512_and_si512(__m512i a, __m512i b) {
  return each_lane<std::uint64_t>(a, b, [](auto x, auto y) { return x & y; });
}
inline __m512i _mm512_xor_si512(__m512i a, __m512i b) {
  return each_lane<std::uint64_t>(a, b, [](auto x, auto y) { return x ^ y; });
}
inline __m128i _mm_xor_si128(__m128i a, __m128i b) {
  return each_lane<std::uint64_t>(a, b, [](auto x, auto y) { return x ^ y; });
}
// Each bit is that of `table` whose number the bits of a, b and c make, that of a the highest.
inline __m512i _mm512_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table) {
  const auto x = lanes_of<std::uint64_t>(a), y = lanes_of<std::uint64_t>(b);
  const auto z = lanes_of<std::uint64_t>(c);
  return generate<__m512i, std::uint64_t>([&](std::size_t i) {
    std::uint64_t bits = 0;
    for (unsigned row = 0; row < 8; ++row) {
      if ((table >> row & 1) == 0) continue;
      bits |= ((row & 4) != 0 ? x[i] : ~x[i]) & ((row & 2) != 0 ? y[i] : ~y[i]) &
              ((row & 1) != 0 ? z[i] : ~z[i]);
    }
    return bits;
  });
}

inline __m512i _mm512_max_epi16(__m512i a, __m512i b) { return largest<std::int16_t>(a, b); }
inline __m512i _mm512_max_epi32(__m512i a, __m512i b) { return largest<std::int32_t>(a, b); }
inline __m512i _mm512_max_epu16(__m512i a, __m512i b) { return largest<std::uint16_t>(a, b); }
inline __m256i _mm256_max_epu16(__m256i a, __m256i b) { return largest<std::uint16_t>(a, b); }
inline __m128i _mm_max_epu16(__m128i a, __m128i b) { return largest<std::uint16_t>(a, b); }
inline __m512i _mm512_min_epi16(__m512i a, __m512i b) { return smallest<std::int16_t>(a, b); }
// The smallest lane and, in the lane behind it, where it first is.
inline __m128i _mm_minpos_epu16(__m128i a) {
  const auto lanes = lanes_of<std::uint16_t>(a);
  const auto least = std::min_element(lanes.begin(), lanes.end());
  const auto place = static_cast<std::uint16_t>(least - lanes.begin());
  return register_of<__m128i, std::uint16_t>({*least, place});
}
inline __mmask16 _mm512_cmpgt_epi32_mask(__m512i a, __m512i b) {
  return compare<__mmask16, std::int32_t>(a, b, [](auto x, auto y) { return x > y; });
}
inline __mmask32 _mm512_cmpgt_epu16_mask(__m512i a, __m512i b) {
  return compare<__mmask32, std::uint16_t>(a, b, [](auto x, auto y) { return x > y; });
}
// The lowest bits of `from` in the places of the ones of `mask`.
inline std::uint64_t _pdep_u64(std::uint64_t from, std::uint64_t mask) {
  std::uint64_t bits = 0;
  for (; mask != 0; mask &= mask - 1, from >>= 1) {
    if ((from & 1) != 0) bits |= mask & (~mask + 1);
  }
  return bits;
}

// ---- integers of another width

inline __m512i _mm512_packs_epi16(__m512i a, __m512i b) {
  return pack<std::int8_t, std::int16_t>(a, b);
}
inline __m512i _mm512_packus_epi16(__m512i a, __m512i b) {
  return pack<std::uint8_t, std::int16_t>(a, b);
}
inline __m512i _mm512_packs_epi32(__m512i a, __m512i b) {
  return pack<std::int16_t, std::int32_t>(a, b);
}
inline __m256i _mm512_cvtepi16_epi8(__m512i a) {
  return convert<__m256i, std::uint8_t, std::uint16_t>(a, [](auto x) { return x; });
}
inline __m128i _mm512_cvtepi32_epi8(__m512i a) {
  return convert<__m128i, std::uint8_t, std::uint32_t>(a, [](auto x) { return x; });
}
inline __m512i _mm512_cvtepu16_epi32(__m256i a) {
  return convert<__m512i, std::uint32_t, std::uint16_t>(a, [](auto x) { return x; });
}
inline __m512i _mm512_cvtepu32_epi64(__m256i a) {
  return convert<__m512i, std::uint64_t, std::uint32_t>(a, [](auto x) { return x; });
}

// ---- floats

inline __m512d _mm512_add_pd(__m512d a, __m512d b) { return add<double>(a, b); }
inline __m512d _mm512_mul_pd(__m512d a, __m512d b) { return multiply<double>(a, b); }
inline __m512 _mm512_mul_ps(__m512 a, __m512 b) { return multiply<float>(a, b); }
inline __m512d _mm512_fmadd_pd(__m512d a, __m512d b, __m512d c) {
  const auto x = lanes_of<double>(a), y = lanes_of<double>(b), z = lanes_of<double>(c);
  return generate<__m512d, double>([&](std::size_t i) { return std::fma(x[i], y[i], z[i]); });
}
inline __m512 _mm512_max_ps(__m512 a, __m512 b) { return largest<float>(a, b); }
inline __m512 _mm512_min_ps(__m512 a, __m512 b) { return smallest<float>(a, b); }

struct NeitherIsNan {};
constexpr NeitherIsNan _CMP_ORD_Q;
inline __mmask16 _mm512_cmp_ps_mask(__m512 a, __m512 b, NeitherIsNan) {
  return compare<__mmask16, float>(
      a, b, [](float x, float y) { return !std::isnan(x) && !std::isnan(y); });
}

inline __m512d _mm512_cvtepi32_pd(__m256i a) {
  return convert<__m512d, double, std::int32_t>(a, [](auto x) { return x; });
}
inline __m512 _mm512_cvtepi32_ps(__m512i a) {
  return convert<__m512, float, std::int32_t>(a, [](auto x) { return x; });
}
inline __m512i _mm512_cvtps_epi32(__m512 a) {
  return convert<__m512i, std::int32_t, float>(a, word_of_float);
}
inline __m256 _mm512_cvtpd_ps(__m512d a) {
  return convert<__m256, float, double>(a, float_of_double);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}  // namespace instructions

}  // namespace tessera::kernels::emulated
