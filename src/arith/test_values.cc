#include "arith/test_values.h"

#include <cmath>

#include "arith/rounding.h"

namespace tessera::arith {
namespace {

std::uint64_t special_bits(Format format, Random& random) {
  const FloatShape shape = float_shape(format);
  const int fraction_bits = shape.significand_bits - 1;
  const std::uint64_t infinity = static_cast<std::uint64_t>(2 * shape.exponent_max + 1)
                                 << fraction_bits;
  const std::uint64_t one = std::uint64_t{1} << fraction_bits;
  const std::uint64_t choices[] = {0,
                                   1,
                                   one - 1,
                                   one,
                                   one + 1,
                                   infinity,
                                   infinity - 1,
                                   infinity + 1,
                                   one / 2,
                                   infinity / 2 + one / 2,
                                   infinity | (one / 2),
                                   3};
  return choices[random() % (sizeof choices / sizeof choices[0])];
}

// A number of 12 or 9 significant bits: half-way between two of f16 or bf16.
double tie(Random& random) {
  const int bits = random() % 2 == 0 ? 12 : 9;
  const double odd = static_cast<double>((random() % (1u << bits)) | 1u);
  return std::ldexp(odd, static_cast<int>(random() % 40) - 36);
}

double mild(Random& random) { return std::ldexp(static_cast<double>(random() % (1u << 26)), -23); }

}  // namespace

std::uint64_t random_bits(Format format, Random& random) {
  const std::int64_t bytes = format_bytes(format);
  const std::uint64_t uniform = bytes == 8 ? random() : random() >> (64 - 8 * bytes);
  const bool is_vector_float =
      format == Format::kF16 || format == Format::kBf16 || format == Format::kF32;
  if (!is_vector_float) return uniform;
  const std::uint64_t sign = (random() & 1) << (8 * bytes - 1);
  switch (random() % 8) {
    case 0:
      return special_bits(format, random) | sign;
    case 1:
      return round_to(format, static_cast<double>(random() % 64)) | sign;
    case 2:
    case 3:
      return round_to(format, mild(random)) | sign;
    case 4:
      return round_to(format, tie(random)) | sign;
    default:
      return uniform;
  }
}

std::vector<std::byte> random_elements(Format format, std::int64_t count, Random& random) {
  const std::int64_t bytes = format_bytes(format);
  std::vector<std::byte> elements(static_cast<std::size_t>(count * bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    write_bits(format, random_bits(format, random), elements.data() + i * bytes);
  }
  return elements;
}

std::vector<std::byte> random_finite_elements(Format format, std::int64_t count, Random& random) {
  const std::int64_t bytes = format_bytes(format);
  std::vector<std::byte> elements(static_cast<std::size_t>(count * bytes));
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint64_t bits = random_bits(format, random);
    while (!std::isfinite(value_of_bits(format, bits))) bits = random_bits(format, random);
    write_bits(format, bits, elements.data() + i * bytes);
  }
  return elements;
}

}  // namespace tessera::arith
