// The AVX512-FP16 instructions that the sources of tile/intrinsics.h take, one lane after the other
// in portable C++: results are those of the processor, bit for bit, NaN payloads included.
#pragma once

#include <type_traits>

#include "arith/kernels/testing/emulated_registers.h"

namespace tessera::kernels::emulated {

// How often this thread has rounded to f16 so far, for tests that expect the code to be taken.
std::int64_t half_roundings();

// As the processor rounds: to nearest, ties to even; what is too large becomes an infinity (not the
// largest number as in arith/rounding.h), a NaN keeps its sign and the upper bits of its payload.
std::uint16_t half_of_double(double value);
// Exact; a NaN keeps its payload and whether it is a signalling one.
double double_of_half(std::uint16_t bits);
// Rounded to an integer; -32768 where it does not fit in 16 bits.
std::int16_t short_of_half(std::uint16_t bits);
// x * 2^floor(power), rounded once.
std::uint16_t scale_half(std::uint16_t x, std::uint16_t power);
// The second operand where neither is larger (equal, or one is a NaN).
std::uint16_t larger_half(std::uint16_t a, std::uint16_t b);
std::uint16_t smaller_half(std::uint16_t a, std::uint16_t b);

// Stands for _Float16.
struct HalfFloat {
  std::uint16_t bits;
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  explicit HalfFloat(Number number) : bits(half_of_double(static_cast<double>(number))) {}
};

namespace instructions {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the processor's names.

inline __m512h _mm512_castsi512_ph(__m512i a) { return reinterpret<__m512h>(a); }
inline __m256h _mm256_castsi256_ph(__m256i a) { return reinterpret<__m256h>(a); }
inline __m256i _mm256_castph_si256(__m256h a) { return reinterpret<__m256i>(a); }
inline __m128i _mm_castph_si128(__m128h a) { return reinterpret<__m128i>(a); }

inline __m512h _mm512_set1_ph(HalfFloat x) {
  return generate<__m512h, std::uint16_t>([=](std::size_t) { return x.bits; });
}
inline __m256h _mm256_set1_ph(HalfFloat x) {
  return generate<__m256h, std::uint16_t>([=](std::size_t) { return x.bits; });
}

inline __m512h _mm512_scalef_ph(__m512h a, __m512h powers) {
  return each_lane<std::uint16_t>(a, powers, scale_half);
}
inline __m256h _mm256_max_ph(__m256h a, __m256h b) {
  return each_lane<std::uint16_t>(a, b, larger_half);
}
inline __m256h _mm256_min_ph(__m256h a, __m256h b) {
  return each_lane<std::uint16_t>(a, b, smaller_half);
}

inline __m128h _mm512_cvtpd_ph(__m512d a) {
  return convert<__m128h, std::uint16_t, double>(a, half_of_double);
}
inline __m256h _mm512_cvtepi32_ph(__m512i a) {
  return convert<__m256h, std::uint16_t, std::int32_t>(
      a, [](std::int32_t x) { return half_of_double(x); });
}
inline __m512i _mm512_cvtph_epi16(__m512h a) {
  return convert<__m512i, std::int16_t, std::uint16_t>(a, short_of_half);
}

// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}  // namespace instructions

}  // namespace tessera::kernels::emulated
