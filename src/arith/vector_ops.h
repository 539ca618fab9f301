// The same arithmetic on arrays, twice: `ref` one element at a time with the definitions of
// rounding.h, function.h, integer.h and block_float.h; `simd` fast, with run-time choice of the
// processor's vector instructions. Both have the same interface and give the same bits, for every
// input, on every processor (arith_test compares them).
//
// Pointers need the alignment of their elements only. Input and output may be the same array where
// both formats have the same size; otherwise they must not overlap. Counts are elements.
#pragma once

#include <cstdint>

#include "arith/block_float.h"
#include "arith/format.h"
#include "arith/operation.h"
#include "arith/wide_sum.h"

namespace tessera::arith {

// A contiguous input array, or one element for all (stride 0). stride is 0 or 1.
struct Operand {
  Format format = Format::kF16;
  const void* data = nullptr;
  std::int64_t stride = 1;
};

// A contiguous output array of `count` elements.
struct Output {
  Format format = Format::kF16;
  void* data = nullptr;
  std::int64_t count = 0;
};

// Blocks across rows: block p holds element p of each row.
//
//   rows[0]   ─ f16 f16 f16 f16 ...        exponents[p]                     Es of pixel p
//   rows[1]   ─ f16 f16 f16 f16 ...   ──►  mantissas[(r/2)*pair_stride + 2*p + r%2]   q of row r
//   rows[..]     pixel 0 1 2 3 ...
//
// This is the input of the convolution kernel: pairs of channels beside each other, ready for
// 16-bit multiply-add. With an odd number of rows the second half of the last pair is zero. A null
// row is a row of zeros (padding).
struct ColumnBlocks {
  Format format = Format::kF16;       // of the rows: f16, bf16 or f32
  const void* const* rows = nullptr;  // row_count pointers, each to `pixels` elements, or null
  std::int64_t row_count = 0;         // elements per block, 1 .. 32768
  std::int64_t pixels = 0;            // blocks
  int mantissa_bits = 11;             // m, 2..15
  std::uint8_t* exponents = nullptr;  // [pixels]
  std::int16_t* mantissas = nullptr;  // [(row_count + 1) / 2][pair_stride]
  std::int64_t pair_stride = 0;       // in mantissas, >= 2 * pixels
  // Of each row, which of its pixels there are, of at most 64: others are 0, and are not read. Null:
  // all there are.
  const std::uint64_t* lanes = nullptr;
};

// Blocks along memory: block b holds elements [b*block_size, (b+1)*block_size) of the run, the last
// one what is left. For weights. Mantissas keep the order of the elements.
struct RunBlocks {
  Format format = Format::kF16;    // f16, bf16 or f32
  const void* elements = nullptr;  // contiguous
  std::int64_t count = 0;
  std::int64_t block_size = 128;      // elements per block (N, or fewer)
  int mantissa_bits = 11;             // m, 2..15
  std::uint8_t* exponents = nullptr;  // [ceil(count / block_size)]
  std::int16_t* mantissas = nullptr;  // [count]
};

namespace ref {

// Reads every element exactly and rounds once to the output's format (integers: plain numbers,
// saturating). in.stride may be 0.
void convert(const Operand& in, const Output& out);
// f(in[i]), one rounding.
void unary(const Activation& activation, const Operand& in, const Output& out);
// f(a[i], b[i]), one rounding.
void binary(BinaryFunction function, const Operand& a, const Operand& b, const Output& out);

// Float array (f16, bf16, f32; read exactly as binary32) to affine integers i8, u8, i16, i32.
void quantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out);
// Affine integers to a float array: float(q - zero_point) * scale in binary32, then one rounding to
// f16 or bf16 where the output is narrower.
void dequantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out);
// int32 accumulators to affine integers.
void requantise(const std::int32_t* accumulators, float multiplier, std::int32_t zero_point,
                const Output& out);

void quantise_columns(const ColumnBlocks& blocks, StickyFlags& flags);
void quantise_runs(const RunBlocks& blocks, StickyFlags& flags);

// Adds `count` contiguous elements of the sum's format to `sum`, in order.
void add_to_sum(const Operand& in, std::int64_t count, ElementSum& sum);

}  // namespace ref

namespace simd {

void convert(const Operand& in, const Output& out);
void unary(const Activation& activation, const Operand& in, const Output& out);
void binary(BinaryFunction function, const Operand& a, const Operand& b, const Output& out);
void quantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out);
void dequantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out);
void requantise(const std::int32_t* accumulators, float multiplier, std::int32_t zero_point,
                const Output& out);
void quantise_columns(const ColumnBlocks& blocks, StickyFlags& flags);
void quantise_runs(const RunBlocks& blocks, StickyFlags& flags);
void add_to_sum(const Operand& in, std::int64_t count, ElementSum& sum);

}  // namespace simd

}  // namespace tessera::arith
