// Included by two sources, which are compiled with the processor's instructions and with emulated
// ones: the list of testing/tile_instructions.h. An instruction that tile/intrinsics.h gets is
// added here.

#include <cstring>

#include "arith/kernels/testing/tile_instructions.h"
#include "arith/kernels/tile/intrinsics.h"

namespace tessera::kernels::testing {
namespace {

#ifdef TESSERA_TILE_INTRINSICS

#define TESSERA_ALL     \
  TESSERA_INSTRUCTIONS( \
      "amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl,avx512fp16,bmi2,sse4.1")

// Operands: the first bytes as a register.
#define TESSERA_REGISTER(type, name)                     \
  TESSERA_ALL inline type name(const std::byte* bytes) { \
    type value;                                          \
    std::memcpy(&value, bytes, sizeof value);            \
    return value;                                        \
  }
TESSERA_REGISTER(__m128i, i128)
TESSERA_REGISTER(__m256i, i256)
TESSERA_REGISTER(__m512i, i512)
TESSERA_REGISTER(__m256, f256)
TESSERA_REGISTER(__m512, f512)
TESSERA_REGISTER(__m512d, d512)
TESSERA_REGISTER(__m256h, h256)
TESSERA_REGISTER(__m512h, h512)
#undef TESSERA_REGISTER

template <typename Number>
Number number_of(const std::byte* bytes) {
  Number number;
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

template <typename Value>
TESSERA_ALL void put(Result& out, const Value& value) {
  std::memcpy(out.bytes, &value, sizeof value);
}

// One that gives a value, and one that writes memory itself.
#define TESSERA_VALUE(name, ...) \
  {name, [](const Operands& in, Result& out) TESSERA_ALL { put(out, __VA_ARGS__); }}
#define TESSERA_ACTION(name, ...) \
  {name, [](const Operands& in, Result& out) TESSERA_ALL { __VA_ARGS__; }}
#define TESSERA_ANY_NAN(name, where, ...) \
  {name, [](const Operands& in, Result& out) TESSERA_ALL { put(out, __VA_ARGS__); }, AnyNan::where}

void add_moves(std::vector<Instruction>& list) {
  const Instruction more[] = {
      TESSERA_VALUE("setzero_si512", ((void)in, _mm512_setzero_si512())),
      TESSERA_VALUE("set1_epi8", _mm512_set1_epi8(number_of<char>(in.a))),
      TESSERA_VALUE("set1_epi16", _mm512_set1_epi16(number_of<short>(in.a))),
      TESSERA_VALUE("set1_epi32", _mm512_set1_epi32(number_of<int>(in.a))),
      TESSERA_VALUE("set1_ps", _mm512_set1_ps(number_of<float>(in.a))),
      TESSERA_VALUE("set1_pd", _mm512_set1_pd(number_of<double>(in.a))),
      TESSERA_VALUE("mm_set1_epi16", _mm_set1_epi16(number_of<short>(in.a))),
      TESSERA_VALUE("setr_epi8", ((void)in, _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, -12, 13,
                                                          6, 7, 14, 127))),
      TESSERA_VALUE("setr_epi64", ((void)in, _mm512_setr_epi64(0, 1, 8, -9, 2, 3, 10, 11))),
      TESSERA_VALUE("set_m128i", _mm256_set_m128i(i128(in.a), i128(in.b))),
      TESSERA_VALUE("broadcast_i32x4", _mm512_broadcast_i32x4(i128(in.a))),
      TESSERA_VALUE("castsi256_si512", _mm512_castsi512_si256(_mm512_castsi256_si512(i256(in.a)))),
      TESSERA_VALUE("castps256_ps512",
                    _mm512_insertf32x8(_mm512_castps256_ps512(f256(in.a)), f256(in.b), 1)),
      TESSERA_VALUE("castsi256_si128", _mm256_castsi256_si128(i256(in.a))),
      TESSERA_VALUE("cvtsi128_si32", _mm_cvtsi128_si32(i128(in.a))),
      TESSERA_VALUE("castsi512_ph", _mm512_castsi512_ph(i512(in.a))),
      TESSERA_VALUE("castsi256_ph", _mm256_castsi256_ph(i256(in.a))),
      TESSERA_VALUE("castph_si256", _mm256_castph_si256(h256(in.a))),
      TESSERA_VALUE("extracti32x4_epi32 0", _mm512_extracti32x4_epi32(i512(in.a), 0)),
      TESSERA_VALUE("extracti32x4_epi32 1", _mm512_extracti32x4_epi32(i512(in.a), 1)),
      TESSERA_VALUE("extracti32x4_epi32 2", _mm512_extracti32x4_epi32(i512(in.a), 2)),
      TESSERA_VALUE("extracti32x4_epi32 3", _mm512_extracti32x4_epi32(i512(in.a), 3)),
      TESSERA_VALUE("extracti64x4_epi64 0", _mm512_extracti64x4_epi64(i512(in.a), 0)),
      TESSERA_VALUE("extracti64x4_epi64 1", _mm512_extracti64x4_epi64(i512(in.a), 1)),
      TESSERA_VALUE("extracti128_si256 0", _mm256_extracti128_si256(i256(in.a), 0)),
      TESSERA_VALUE("extracti128_si256 1", _mm256_extracti128_si256(i256(in.a), 1)),
      TESSERA_VALUE("inserti64x4 0", _mm512_inserti64x4(i512(in.a), i256(in.b), 0)),
      TESSERA_VALUE("inserti64x4 1", _mm512_inserti64x4(i512(in.a), i256(in.b), 1)),
      TESSERA_VALUE("insertf32x8 0", _mm512_insertf32x8(f512(in.a), f256(in.b), 0)),
      TESSERA_VALUE("insertf32x8 1", _mm512_insertf32x8(f512(in.a), f256(in.b), 1)),
      TESSERA_VALUE("mask_mov_epi8", _mm512_mask_mov_epi8(i512(in.a), in.mask, i512(in.b))),
      TESSERA_VALUE("maskz_mov_epi32",
                    _mm512_maskz_mov_epi32(static_cast<__mmask16>(in.mask), i512(in.a))),
      TESSERA_VALUE("maskz_mov_ps",
                    _mm512_maskz_mov_ps(static_cast<__mmask16>(in.mask), f512(in.a))),
  };
  list.insert(list.end(), std::begin(more), std::end(more));
}

void add_memory(std::vector<Instruction>& list) {
  const Instruction more[] = {
      TESSERA_VALUE("load_si512", _mm512_load_si512(in.memory + 64)),
      TESSERA_VALUE("loadu_si512", _mm512_loadu_si512(in.memory + 1)),
      TESSERA_VALUE("loadu_pd", _mm512_loadu_pd(in.memory + 1)),
      TESSERA_VALUE("mask_loadu_epi8", _mm512_mask_loadu_epi8(i512(in.a), in.mask, in.memory + 1)),
      TESSERA_VALUE("maskz_loadu_epi8", _mm512_maskz_loadu_epi8(in.mask, in.memory + 1)),
      TESSERA_VALUE("maskz_loadu_epi16",
                    _mm512_maskz_loadu_epi16(static_cast<__mmask32>(in.mask), in.memory + 1)),
      TESSERA_ACTION("store_si512", _mm512_store_si512(out.bytes + 64, i512(in.a))),
      TESSERA_ACTION("storeu_si512", _mm512_storeu_si512(out.bytes + 1, i512(in.a))),
      TESSERA_ACTION("storeu_pd", _mm512_storeu_pd(out.bytes + 1, d512(in.a))),
      TESSERA_ACTION("store_si256",
                     _mm256_store_si256(reinterpret_cast<__m256i*>(out.bytes + 32), i256(in.a))),
      TESSERA_ACTION("storeu_si256",
                     _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.bytes + 1), i256(in.a))),
      TESSERA_ACTION("storeu_si128",
                     _mm_storeu_si128(reinterpret_cast<__m128i*>(out.bytes + 1), i128(in.a))),
      TESSERA_ACTION("mask_storeu_epi8",
                     _mm512_mask_storeu_epi8(out.bytes + 1, in.mask, i512(in.a))),
      TESSERA_ACTION(
          "mask_storeu_epi16",
          _mm256_mask_storeu_epi16(out.bytes + 1, static_cast<__mmask16>(in.mask), i256(in.a))),
      TESSERA_ACTION(
          "mask_storeu_ps",
          _mm512_mask_storeu_ps(out.bytes + 1, static_cast<__mmask16>(in.mask), f512(in.a))),
  };
  list.insert(list.end(), std::begin(more), std::end(more));
}

void add_orders(std::vector<Instruction>& list) {
  const Instruction more[] = {
      TESSERA_VALUE("unpacklo_epi8", _mm512_unpacklo_epi8(i512(in.a), i512(in.b))),
      TESSERA_VALUE("unpackhi_epi8", _mm512_unpackhi_epi8(i512(in.a), i512(in.b))),
      TESSERA_VALUE("unpacklo_epi16", _mm512_unpacklo_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("unpackhi_epi16", _mm512_unpackhi_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("shuffle_epi8", _mm512_shuffle_epi8(i512(in.a), i512(in.b))),
      TESSERA_VALUE("permutexvar_epi64", _mm512_permutexvar_epi64(i512(in.a), i512(in.b))),
      TESSERA_VALUE("permutex2var_epi64",
                    _mm512_permutex2var_epi64(i512(in.a), i512(in.b), i512(in.c))),
      TESSERA_VALUE("packs_epi16", _mm512_packs_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("packus_epi16", _mm512_packus_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("packs_epi32", _mm512_packs_epi32(i512(in.a), i512(in.b))),
      TESSERA_VALUE("cvtepi16_epi8", _mm512_cvtepi16_epi8(i512(in.a))),
      TESSERA_VALUE("cvtepi32_epi8", _mm512_cvtepi32_epi8(i512(in.a))),
      TESSERA_VALUE("cvtepu16_epi32", _mm512_cvtepu16_epi32(i256(in.a))),
      TESSERA_VALUE("cvtepu32_epi64", _mm512_cvtepu32_epi64(i256(in.a))),
      TESSERA_VALUE("pdep_u64",
                    static_cast<std::uint64_t>(_pdep_u64(number_of<std::uint64_t>(in.a), in.mask))),
  };
  list.insert(list.end(), std::begin(more), std::end(more));
}

void add_integers(std::vector<Instruction>& list) {
  const Instruction more[] = {
      TESSERA_VALUE("add_epi16", _mm512_add_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("add_epi32", _mm512_add_epi32(i512(in.a), i512(in.b))),
      TESSERA_VALUE("sub_epi16", _mm512_sub_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("sub_epi32", _mm512_sub_epi32(i512(in.a), i512(in.b))),
      TESSERA_VALUE("mullo_epi32", _mm512_mullo_epi32(i512(in.a), i512(in.b))),
      TESSERA_VALUE("slli_epi16 1", _mm512_slli_epi16(i512(in.a), 1)),
      TESSERA_VALUE("slli_epi16 7", _mm512_slli_epi16(i512(in.a), 7)),
      TESSERA_VALUE("slli_epi16 16", _mm512_slli_epi16(i512(in.a), 16)),
      TESSERA_VALUE("slli_epi32 7", _mm512_slli_epi32(i512(in.a), 7)),
      TESSERA_VALUE("slli_epi32 32", _mm512_slli_epi32(i512(in.a), 32)),
      TESSERA_VALUE("slli_epi64 52", _mm512_slli_epi64(i512(in.a), 52)),
      TESSERA_VALUE("slli_epi64 64", _mm512_slli_epi64(i512(in.a), 64)),
      TESSERA_VALUE("srli_epi16 7", _mm512_srli_epi16(i512(in.a), 7)),
      TESSERA_VALUE("srli_epi16 16", _mm512_srli_epi16(i512(in.a), 16)),
      TESSERA_VALUE("srli_epi32 10", _mm512_srli_epi32(i512(in.a), 10)),
      TESSERA_VALUE("srai_epi16 7", _mm512_srai_epi16(i512(in.a), 7)),
      TESSERA_VALUE("srai_epi16 16", _mm512_srai_epi16(i512(in.a), 16)),
      TESSERA_VALUE("and_si512", _mm512_and_si512(i512(in.a), i512(in.b))),
      TESSERA_VALUE("xor_si512", _mm512_xor_si512(i512(in.a), i512(in.b))),
      TESSERA_VALUE("xor_si128", _mm_xor_si128(i128(in.a), i128(in.b))),
      TESSERA_VALUE("ternarylogic_epi32 CA",
                    _mm512_ternarylogic_epi32(i512(in.a), i512(in.b), i512(in.c), 0xCA)),
      TESSERA_VALUE("ternarylogic_epi32 1D",
                    _mm512_ternarylogic_epi32(i512(in.a), i512(in.b), i512(in.c), 0x1D)),
      TESSERA_VALUE("max_epi16", _mm512_max_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("max_epi32", _mm512_max_epi32(i512(in.a), i512(in.b))),
      TESSERA_VALUE("max_epu16", _mm512_max_epu16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("mm256_max_epu16", _mm256_max_epu16(i256(in.a), i256(in.b))),
      TESSERA_VALUE("mm_max_epu16", _mm_max_epu16(i128(in.a), i128(in.b))),
      TESSERA_VALUE("min_epi16", _mm512_min_epi16(i512(in.a), i512(in.b))),
      TESSERA_VALUE("minpos_epu16", _mm_minpos_epu16(i128(in.a))),
      TESSERA_VALUE("cmpgt_epi32_mask", _mm512_cmpgt_epi32_mask(i512(in.a), i512(in.b))),
      TESSERA_VALUE("cmpgt_epu16_mask", _mm512_cmpgt_epu16_mask(i512(in.a), i512(in.b))),
  };
  list.insert(list.end(), std::begin(more), std::end(more));
}

void add_floats(std::vector<Instruction>& list) {
  const Instruction more[] = {
      TESSERA_ANY_NAN("add_pd", kDoubles, _mm512_add_pd(d512(in.a), d512(in.b))),
      TESSERA_ANY_NAN("mul_pd", kDoubles, _mm512_mul_pd(d512(in.a), d512(in.b))),
      TESSERA_ANY_NAN("fmadd_pd", kDoubles, _mm512_fmadd_pd(d512(in.a), d512(in.b), d512(in.c))),
      TESSERA_ANY_NAN("mul_ps", kFloats, _mm512_mul_ps(f512(in.a), f512(in.b))),
      TESSERA_VALUE("max_ps", _mm512_max_ps(f512(in.a), f512(in.b))),
      TESSERA_VALUE("min_ps", _mm512_min_ps(f512(in.a), f512(in.b))),
      TESSERA_VALUE("cmp_ps_mask", _mm512_cmp_ps_mask(f512(in.a), f512(in.b), _CMP_ORD_Q)),
      TESSERA_VALUE("cvtepi32_pd", _mm512_cvtepi32_pd(i256(in.a))),
      TESSERA_VALUE("cvtepi32_ps", _mm512_cvtepi32_ps(i512(in.a))),
      TESSERA_VALUE("cvtps_epi32", _mm512_cvtps_epi32(f512(in.a))),
      TESSERA_VALUE("cvtpd_ps", _mm512_cvtpd_ps(d512(in.a))),
      TESSERA_VALUE("set1_ph", _mm512_set1_ph(static_cast<HalfFloat>(number_of<float>(in.a)))),
      TESSERA_VALUE("set1_ph of an int",
                    _mm512_set1_ph(static_cast<HalfFloat>(number_of<int>(in.a)))),
      TESSERA_VALUE("mm256_set1_ph",
                    _mm256_set1_ph(static_cast<HalfFloat>(number_of<float>(in.a)))),
      TESSERA_VALUE("scalef_ph", _mm512_scalef_ph(h512(in.a), h512(in.b))),
      TESSERA_VALUE("max_ph", _mm256_max_ph(h256(in.a), h256(in.b))),
      TESSERA_VALUE("min_ph", _mm256_min_ph(h256(in.a), h256(in.b))),
      TESSERA_VALUE("cvtpd_ph, castph_si128", _mm_castph_si128(_mm512_cvtpd_ph(d512(in.a)))),
      TESSERA_VALUE("cvtepi32_ph", _mm512_cvtepi32_ph(i512(in.a))),
      TESSERA_VALUE("cvtph_epi16", _mm512_cvtph_epi16(h512(in.a))),
  };
  list.insert(list.end(), std::begin(more), std::end(more));
}

// As LDTILECFG reads it: tile 0 of `rows` x `columns` sums, tile 1 of `rows` x `quads`, tile 2 of
// `quads` x `columns`, each column or quad four bytes.
struct alignas(64) Shapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};

template <int kRows, int kQuads, int kColumns>
TESSERA_ALL void multiply_tiles(const Operands& in, Result& out) {
  Shapes shapes;
  shapes.row_bytes[0] = shapes.row_bytes[2] = 4 * kColumns;
  shapes.row_bytes[1] = 4 * kQuads;
  shapes.rows[0] = shapes.rows[1] = kRows;
  shapes.rows[2] = kQuads;
  _tile_loadconfig(&shapes);
  _tile_loadd(0, in.memory, 64);
  _tile_loadd(1, in.memory + 1024, 65);
  _tile_loadd(2, in.memory + 3 * 1024, 64);
  _tile_dpbssd(0, 1, 2);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, out.bytes, 64);
  _tile_release();
}

TESSERA_ALL void clear_tile(const Operands& in, Result& out) {
  Shapes shapes;
  shapes.row_bytes[0] = 60;
  shapes.rows[0] = 7;
  _tile_loadconfig(&shapes);
  _tile_loadd(0, in.memory, 64);
  _tile_zero(0);
  _tile_stored(0, out.bytes, 64);
  _tile_release();
}

std::vector<Instruction> all_instructions() {
  std::vector<Instruction> list = {
      {"tiles 16 x 16 x 16", multiply_tiles<16, 16, 16>},
      {"tiles 5 x 16 x 7", multiply_tiles<5, 16, 7>},
      {"tiles 16 x 3 x 9", multiply_tiles<16, 3, 9>},
      {"tiles 1 x 1 x 1", multiply_tiles<1, 1, 1>},
      {"tile_zero", clear_tile},
  };
  add_moves(list);
  add_memory(list);
  add_orders(list);
  add_integers(list);
  add_floats(list);
  return list;
}

#else

std::vector<Instruction> all_instructions() { return {}; }

#endif

}  // namespace
}  // namespace tessera::kernels::testing
