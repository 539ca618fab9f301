// For tests only: the element-wise functions by GNU MPFR, an implementation that shares nothing
// with function.cc, rounded once to f16 or bf16.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arith/format.h"
#include "arith/operation.h"

namespace tessera::arith {

// The correctly rounded bits of f(value of `input`) in `format` (kF16 or kBf16), saturating, NaN
// canonical. Computed with 200 bits.
std::uint16_t exact_entry(const Activation& activation, Format format, std::uint16_t input);

// The correctly rounded f32 value of f(x), x finite.
double exact_f32(const Activation& activation, double x);

// A table that is compared, entry by entry, with exact_entry(), and the hashes of its entries. A
// change of a hash is a change of the number contract.
struct CheckedTable {
  Activation activation;
  std::uint64_t f16 = 0, bf16 = 0;  // table_hash()
};

// Every function, those with parameters with several.
std::span<const CheckedTable> checked_tables();
std::vector<Activation> checked_activations();  // theirs

// FNV-1a, 64 bits, over the entries as little-endian bytes.
std::uint64_t table_hash(const std::uint16_t* entries);

}  // namespace tessera::arith
