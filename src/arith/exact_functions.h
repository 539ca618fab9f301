// For tests only: the element-wise functions by GNU MPFR, an implementation that shares nothing
// with function.cc, rounded once to f16 or bf16.
#pragma once

#include <cstdint>
#include <vector>

#include "arith/format.h"
#include "arith/operation.h"

namespace tessera::arith {

// The correctly rounded bits of f(value of `input`) in `format` (kF16 or kBf16), saturating, NaN
// canonical. Computed with 200 bits.
std::uint16_t exact_entry(const Activation& activation, Format format, std::uint16_t input);

// The correctly rounded f32 value of f(x), x finite.
double exact_f32(const Activation& activation, double x);

// The activations whose tables are checked entry by entry: every function, those with parameters
// with several.
std::vector<Activation> checked_activations();

// FNV-1a, 64 bits, over the entries as little-endian bytes.
std::uint64_t table_hash(const std::uint16_t* entries);

}  // namespace tessera::arith
