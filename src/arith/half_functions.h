// Hard sigmoid and hard swish from f16 to f16 in vectors of binary32. The result is less than 2^-22
// off, relatively, so what is a 2^-22nd smaller and larger is rounded: where both give the same
// f16, that is the right one. Where they differ (next to a tie), and for infinities and NaN, the
// table of all results answers, lane by lane. A test compares all 65,536 inputs on every
// instruction set.
#pragma once

#include <cstdint>

#include "arith/operation.h"

namespace tessera::arith {

// Rows of contiguous elements of one format.
struct Rows {
  Format format = Format::kF16;
  void* data = nullptr;
  std::int64_t pitch = 0;  // bytes from row to row
  std::int64_t rows = 0;
  std::int64_t count = 0;  // elements of a row
};
// simd::unary() on each row, in place.
void unary_rows(const Activation& activation, const Rows& rows);

// Rows of contiguous elements of 16 bits; `in` and `out` are the same or apart.
struct HalfRows {
  const void* in = nullptr;
  std::int64_t in_pitch = 0;  // bytes from row to row
  void* out = nullptr;
  std::int64_t out_pitch = 0;
  std::int64_t rows = 1;
  std::int64_t count = 0;  // elements of a row
};

// False where the function has no such form (here, or on this processor); then nothing is done.
bool half_function(const Activation& activation, const HalfRows& rows);

}  // namespace tessera::arith
