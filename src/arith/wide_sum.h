// Sums over elements: means, reductions, average pooling.
//
//   f16 and integer elements   an exact fixed-point sum (int64 with the unit 2^-24; squares in 128
//                              bits with the unit 2^-48): the order cannot matter
//   bf16, f32 elements         binary64, added one after the other in the order of the elements
//                              (row-major over the reduced axes), starting from +0
//
// A result is one rounding of the exact sum, quotient sum / divisor or root. (bf16 and f32: of the
// binary64 sum, the binary64 quotient, the binary64 root.)
#pragma once

#include <cstdint>

#include "arith/block_float.h"
#include "arith/format.h"
#include "arith/operation.h"

namespace tessera::arith {

// A running sum of elements of one format. Copyable; two sums of f16 or integer elements may be
// merged in any order.
class ElementSum {
 public:
  explicit ElementSum(Format elements);

  void add(double value);           // an element, as read_element gives it
  void add_absolute(double value);  // |element|
  void add_square(double value);    // element^2; do not mix with add() on one sum
  // f16 only: `units` * 2^-24, the exact sum of any number of finite elements added elsewhere.
  void add_units(std::int64_t units);
  // Adds the other sum's elements (f16 and integers: exact; floats: its total as one addend).
  void merge(const ElementSum& other);

  // The sum, the sum divided by `divisor` (>= 1), the square root of the sum (of squares), rounded
  // once to `out`. Zero is +0. NaN among the elements, or infinities of both signs, give NaN;
  // otherwise an infinity gives that infinity as `out` rounds it.
  double sum(Format out) const;
  double mean(std::int64_t divisor, Format out) const;
  double root(Format out) const;

  // The whole state, to be kept elsewhere. Any bits make some sum of the same format.
  struct Bits {
    std::uint64_t low = 0, high = 0;  // the fixed-point total, or low: the binary64 total
    std::uint64_t specials = 0;       // bit 0 NaN, 1 +infinity, 2 -infinity
  };
  Bits bits() const;
  void set_bits(const Bits& bits);

 private:
  double special_or(double finite) const;
  double scaled(std::int64_t divisor) const;

  bool exact_;  // f16 and integers
  int unit_;    // exponent of the unit of total_: -48 for f16, 0 for integers
  __extension__ __int128 total_ = 0;
  double float_total_ = 0.0;
  bool nan_ = false;
  bool positive_infinity_ = false;
  bool negative_infinity_ = false;
};

// What a reduction has of its elements so far, by ElementSum for the sums. Elements that are added
// in their order give the same result in one go and in parts with a store() and load() between.
class ReduceAccumulator {
 public:
  static constexpr std::int64_t kStoredBytes = 32;

  ReduceAccumulator(ReduceFunction function, Format elements);

  void add(double value);  // an element, as read_element gives it
  void add_run(const ElementRun& elements);
  // Elements of kSum and kMean that are added here by others need their number in add_count().
  ElementSum& sum() { return sum_; }
  void add_count(std::int64_t count) { count_ += count; }
  std::int64_t count() const { return count_; }

  // A mean of nothing is that of one 0.
  double result(Format out) const;

  // kStoredBytes bytes, little-endian: total (16), count (8), specials (8). Any bytes can be
  // loaded.
  void store(void* bytes) const;
  void load(const void* bytes);

 private:
  ReduceFunction function_;
  ElementSum sum_;
  double value_;  // product, maximum, minimum
  std::int64_t count_ = 0;
};

// The reduction of a run of elements to one value of format `out`.
// Maximum and minimum: NaN wins, -0 < +0; of nothing: -inf and +inf as `out` rounds them. Product:
// binary64, in order, one rounding. Integer formats here are plain numbers (scale 1, zero point 0).
double reduce(ReduceFunction function, const ElementRun& elements, Format out);

}  // namespace tessera::arith
