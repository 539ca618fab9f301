// The number formats (docs/numbers.md). Names, sizes, ranges; the roundings are in rounding.h.
#pragma once

#include <cstdint>

#include "tessera/format.h"

namespace tessera {

bool format_is_float(Format format);
bool format_is_integer(Format format);  // bool is not one
// What the array, pooling and reduction take as floats: f16, bf16 and f32. f64 is only moved and
// converted.
bool format_is_vector(Format format);
// Integers that may have a scale and a zero point: i8, u8, i16, u16 and i32.
bool format_is_affine(Format format);

// What the array's inputs are turned into.
enum class MatrixKind : std::uint8_t {
  kBlockFloat,  // bfp(N, m), exact fixed-point accumulator, one rounding
  kFloat,       // plain f16/bf16/f32; binary64 accumulator in kernel order, one rounding to format
  kInteger,     // i8/u8/i16/u16 minus zero point; int32 accumulator
  kMicroscaling,  // OCP Microscaling: blocks of 32 with an E8M0 scale, exact sum, one rounding
};

// The long format: what a product of block floating point is summed in.
enum class LongFormat : std::uint8_t {
  kExact,   // the unit of the smallest product; nothing is lost
  kQ34_40,  // every addend is floored to a multiple of 2^-40
};

// The element formats of OCP Microscaling v1.0.
enum class MicroElement : std::uint8_t { kInt8, kE4M3, kE5M2, kE3M2, kE2M3, kE2M1 };
inline constexpr int kMicroElementCount = 6;

// How a block's largest magnitude becomes its scale, a power of two.
enum class MicroScale : std::uint8_t {
  kFloor,  // the power of two below it
  kCeil,   // the one above it, if it is none itself
  kEven,   // the one below it, once it is rounded to the element's mantissa
};

struct MatrixFormat {
  MatrixKind kind = MatrixKind::kBlockFloat;
  int native_dimension = 128;         // N, elements per block
  int mantissa_bits_moving = 11;      // mx: activations, 2..15
  int mantissa_bits_stationary = 11;  // mw: weights, 2..15
  LongFormat long_format = LongFormat::kExact;
  // Of microscaling; what matters for the other kinds does not matter here.
  MicroElement element_moving = MicroElement::kE4M3;
  MicroElement element_stationary = MicroElement::kE4M3;
  MicroScale micro_scale = MicroScale::kFloor;
  friend bool operator==(const MatrixFormat&, const MatrixFormat&) = default;
};

// How the sum of a product is cut into blocks; decided once per layer, in the graph.
enum class BlockCut : std::uint8_t {
  kChannel,  // blocks run along input channels, one set a kernel tap; k = (tap, channel)
  kIm2col,   // blocks run along tap x channel (tap outermost), across taps
};

}  // namespace tessera
