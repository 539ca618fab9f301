// Decisions taken from a fuzzer's bytes, one after the other: a small change of the bytes is a
// small change of what is made of them. Behind the last byte every decision is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "arith/tensor.h"

namespace tessera::fuzz {

class Choices {
 public:
  explicit Choices(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }
  std::uint8_t byte();
  std::uint64_t word();                    // of eight bytes
  std::int64_t below(std::int64_t count);  // 0 to count - 1; count is at most 256
  bool one_in(std::int64_t count) { return below(count) == count - 1; }
  std::int64_t integer();                           // most often small, sometimes at a border
  double real();                                    // any bits, or a small number
  std::string text(std::size_t bytes_max);          // any bytes
  Tensor tensor(Format format, const Shape& dims);  // small numbers, or any bits
  std::span<const std::byte> rest();

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace tessera::fuzz
