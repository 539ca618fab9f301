// OCP Microscaling v1.0: blocks of 32 elements of 4 to 8 bits that share one power of two.
//
//   x[0..32) ──► amax ──► X = 2^clamp(floor(log2 amax) - emax, -127, 127)    E8M0: a byte, 255 NaN
//                 x[i] / X ──► nearest element, ties to even, saturating     a code of 4 to 8 bits
//
// A code under scale code s stands for micro_element_value(element, code) * 2^(s - 127). A NaN or
// an infinity anywhere in a block makes its scale NaN, and with it every product that the block
// takes part in. Elements have subnormals; -0 keeps its sign.
//
// Products sum exactly: every element is a small whole number times a power of two, so that the sum
// of a product is a whole number of some unit, whatever the order; it is rounded once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arith/block_float.h"
#include "arith/format.h"

namespace tessera::arith {

inline constexpr std::int64_t kMicroBlock = 32;
inline constexpr int kMicroScaleNan = 255;
inline constexpr int kMicroScaleBias = 127;

// What an element format is like. A number is sign, exponent and `fraction_bits` bits behind the
// point; below 2^exponent_min the point stays where it is. MXINT8 is of this kind, too: it has no
// exponent, so that all its numbers are like subnormal ones.
struct MicroShape {
  int bits = 8;           // of a code
  int fraction_bits = 3;  // of the significand behind the point
  int exponent_min = -6;  // of normal numbers
  int exponent_max = 8;   // emax: of the largest number
  double largest = 448.0;
};
MicroShape micro_shape(MicroElement element);
// "mxint8", "mxfp8e4m3", "mxfp8e5m2", "mxfp6e3m2", "mxfp6e2m3", "mxfp4e2m1".
const char* micro_element_name(MicroElement element);
bool micro_element_from_name(const std::string& name, MicroElement& element);
const char* micro_scale_name(MicroScale scale);  // "floor", "ceil", "even"

// The number that a code stands for, without its scale. E4M3 has NaN, E5M2 also infinities.
double micro_element_value(MicroElement element, std::uint8_t code);
// The code of the nearest number, ties to even; saturates. `value` is finite.
std::uint8_t micro_element_code(MicroElement element, double value);
// 2^(code - 127), NaN for 255.
double micro_scale_value(int scale_code);
// The scale code of a block whose largest magnitude is `magnitude` (finite).
int micro_scale_code(MicroElement element, MicroScale mode, double magnitude);

struct MicroBlock {
  int scale = 0;                    // code
  std::vector<std::uint8_t> codes;  // one per element
  friend bool operator==(const MicroBlock&, const MicroBlock&) = default;
};

namespace ref {
// At most 32 elements. Flags are or-ed into `flags`.
MicroBlock quantise_micro_block(const ElementRun& elements, MicroElement element, MicroScale mode,
                                StickyFlags& flags);
// Adds the products of two blocks of equal length, whose scales are numbers.
void add_micro_dot(MicroElement moving, const MicroBlock& x, MicroElement stationary,
                   const MicroBlock& w, WideAccumulator& sum);
}  // namespace ref

// Quantised and read back, pixel by pixel: rows[r * stride + p], element r of the block of pixel p.
struct MicroColumns {
  float* rows = nullptr;  // numbers of a format with `source` bits; become what was made of them
  std::int64_t stride = 0;
  std::int64_t row_count = 0;  // at most 32
  std::int64_t pixels = 0;     // at most 64
  MicroElement element = MicroElement::kE4M3;
  MicroScale mode = MicroScale::kFloor;
  // What is known of the numbers afterwards, pixel by pixel; taken together with what is there.
  // All numbers are multiples of 2^lowest and below 2^highest in magnitude.
  std::int32_t* lowest = nullptr;
  std::int32_t* highest = nullptr;
};
// False where a number does not fit binary32 (beyond its largest); the rows are then worth nothing.
// A block with a NaN or an infinity becomes all NaN.
bool micro_columns(const MicroColumns& columns, StickyFlags& flags);

}  // namespace tessera::arith
