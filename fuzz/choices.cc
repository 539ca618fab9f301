#include "choices.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "arith/format.h"
#include "arith/rounding.h"

namespace tessera::fuzz {
namespace {

double small_number(Format format, std::uint64_t bits) {
  const auto number = static_cast<double>(bits >> 60);
  if (format == Format::kBool) return static_cast<double>(bits >> 63);
  if (format_is_float(format)) return (number - 8) * 0.375;
  const bool is_signed = format == Format::kI8 || format == Format::kI16 ||
                         format == Format::kI32 || format == Format::kI64;
  return is_signed ? number - 8 : number;
}

}  // namespace

std::uint8_t Choices::byte() {
  if (bytes_.empty()) return 0;
  const auto value = static_cast<std::uint8_t>(bytes_.front());
  bytes_ = bytes_.subspan(1);
  return value;
}

std::uint64_t Choices::word() {
  std::uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value = value << 8 | byte();
  return value;
}

std::int64_t Choices::below(std::int64_t count) { return count <= 1 ? 0 : byte() % count; }

std::int64_t Choices::integer() {
  static constexpr std::int64_t kBorders[] = {INT64_MIN,     INT64_MIN + 1, INT32_MIN, -1000,
                                              1000,          INT32_MAX,     1LL << 32, 1LL << 40,
                                              INT64_MAX - 1, INT64_MAX,     -128,      255};
  const std::uint8_t value = byte();
  if (value >= 250) return static_cast<std::int64_t>(word());
  if (value >= 238) return kBorders[value - 238];
  return value % 7 - 2;
}

double Choices::real() {
  const std::uint8_t value = byte();
  if (value >= 240) return std::bit_cast<double>(word());
  return (value - 100) / 16.0;
}

std::string Choices::text(std::size_t bytes_max) {
  const auto size = static_cast<std::size_t>(
      below(static_cast<std::int64_t>(std::min<std::size_t>(bytes_max, 255)) + 1));
  std::string result;
  while (result.size() < size && !done()) result += static_cast<char>(byte());
  return result;
}

// One byte says how the elements look, and a few more what they are, repeated.
Tensor Choices::tensor(Format format, const Shape& dims) {
  Tensor tensor = Tensor::zeros(format, dims);
  constexpr int kAnyBits = 7;
  const std::int64_t look = below(8);
  std::uint64_t state = word() | 1;
  const std::int64_t element = format_bytes(format);
  for (std::int64_t i = 0; i < element_count(dims); ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::byte* const at = tensor.bytes.data() + i * element;
    if (look == kAnyBits && format != Format::kBool) {
      const std::uint64_t bits = state >> 7;
      std::memcpy(at, &bits, static_cast<std::size_t>(element));
    } else {
      arith::write_element(format, small_number(format, state), at);
    }
  }
  return tensor;
}

std::span<const std::byte> Choices::rest() {
  const auto all = bytes_;
  bytes_ = {};
  return all;
}

}  // namespace tessera::fuzz
