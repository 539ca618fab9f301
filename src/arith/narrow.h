// Element types of fewer than 8 bits and the 8-bit floats, as models store them. Inside, their
// elements lie in the next wider format that holds every one of them exactly:
//
//   int4, int2       i8          float8 (e4m3fn, e4m3fnuz, e5m2, e5m2fnuz), float4e2m1     f32
//   uint4, uint2     u8
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "arith/format.h"

namespace tessera::arith {

enum class Narrow : std::uint8_t {
  kE4M3FN,
  kE4M3FNUZ,
  kE5M2,
  kE5M2FNUZ,
  kUint4,
  kInt4,
  kE2M1,
  kUint2,
  kInt2,
};

// By its number in an ONNX file (17 to 23, 25, 26); nothing for any other type.
std::optional<Narrow> narrow_of_data_type(std::int64_t data_type);
std::string_view narrow_name(Narrow type);  // "int4", "float8e5m2", ...
int narrow_bits(Narrow type);               // 2, 4 or 8
bool narrow_is_float(Narrow type);
Format narrow_format(Narrow type);  // what its elements are held in

// The number that a code stands for; `code` has no bits above the type's.
double narrow_value(Narrow type, std::uint8_t code);

// Integer types: the low bits, and the nearest number of the type.
std::int64_t narrow_wrapped(Narrow type, std::int64_t value);
std::int64_t narrow_clamped(Narrow type, std::int64_t value);

// Float types: the nearest number, ties to even. What lies beyond the largest one becomes it, or
// without `saturate` an infinity, or NaN where the type has none. float4e2m1 always saturates, and
// has no NaN: it becomes -0.
double narrow_rounded(Narrow type, double value, bool saturate);

}  // namespace tessera::arith
