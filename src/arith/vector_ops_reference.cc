// The obvious forms: one element at a time, straight from the definitions.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "arith/function.h"
#include "arith/integer.h"
#include "arith/rounding.h"
#include "arith/vector_ops.h"

namespace tessera::arith::ref {
namespace {

const std::byte* element(const Operand& in, std::int64_t index) {
  return static_cast<const std::byte*>(in.data) + index * in.stride * format_bytes(in.format);
}

std::byte* element(const Output& out, std::int64_t index) {
  return static_cast<std::byte*>(out.data) + index * format_bytes(out.format);
}

double read(const Operand& in, std::int64_t index) {
  return read_element(in.format, element(in, index));
}

void write(const Output& out, std::int64_t index, double value) {
  write_element(out.format, value, element(out, index));
}

}  // namespace

void convert(const Operand& in, const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) write(out, i, read(in, i));
}

void unary(const Activation& activation, const Operand& in, const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) {
    write(out, i, evaluate(activation, read(in, i), out.format));
  }
}

void binary(BinaryFunction function, const Operand& a, const Operand& b, const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) {
    write(out, i, evaluate(function, read(a, i), read(b, i), out.format));
  }
}

void quantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) {
    const float x = static_cast<float>(read(in, i));
    write(out, i, quantize_linear(x, scale, zero_point, out.format));
  }
}

void dequantize(const Operand& in, float scale, std::int32_t zero_point, const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) {
    const auto q = static_cast<std::int32_t>(read(in, i));
    write(out, i, static_cast<double>(dequantize_linear(q, scale, zero_point)));
  }
}

void requantise(const std::int32_t* accumulators, float multiplier, std::int32_t zero_point,
                const Output& out) {
  for (std::int64_t i = 0; i < out.count; ++i) {
    write(out, i, arith::requantise(accumulators[i], multiplier, zero_point, out.format));
  }
}

void quantise_columns(const ColumnBlocks& blocks, StickyFlags& flags) {
  const auto rows = static_cast<std::size_t>(blocks.row_count);
  const auto bytes = static_cast<std::size_t>(format_bytes(blocks.format));
  std::vector<std::byte> column(rows * bytes);
  for (std::int64_t pixel = 0; pixel < blocks.pixels; ++pixel) {
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* source = static_cast<const std::byte*>(blocks.rows[row]);
      if (blocks.lanes != nullptr && (blocks.lanes[row] >> pixel & 1) == 0) source = nullptr;
      // Bits are copied, not rounded: the quantiser must see infinities.
      const std::uint64_t bits =
          source == nullptr
              ? 0
              : read_bits(blocks.format, source + pixel * static_cast<std::int64_t>(bytes));
      write_bits(blocks.format, bits, column.data() + row * bytes);
    }
    const BlockFloat block = quantise_block(
        {.format = blocks.format, .data = column.data(), .count = blocks.row_count, .stride = 1},
        blocks.mantissa_bits, flags);
    blocks.exponents[pixel] = static_cast<std::uint8_t>(block.exponent);
    for (std::int64_t row = 0; row < blocks.row_count + blocks.row_count % 2; ++row) {
      const std::int16_t mantissa =
          row < blocks.row_count ? block.mantissas[static_cast<std::size_t>(row)] : std::int16_t{0};
      blocks.mantissas[(row / 2) * blocks.pair_stride + 2 * pixel + row % 2] = mantissa;
    }
  }
}

void quantise_runs(const RunBlocks& blocks, StickyFlags& flags) {
  const auto* elements = static_cast<const std::byte*>(blocks.elements);
  const std::int64_t bytes = format_bytes(blocks.format);
  for (std::int64_t first = 0; first < blocks.count; first += blocks.block_size) {
    const std::int64_t count = std::min(blocks.block_size, blocks.count - first);
    const BlockFloat block = quantise_block(
        {.format = blocks.format, .data = elements + first * bytes, .count = count, .stride = 1},
        blocks.mantissa_bits, flags);
    blocks.exponents[first / blocks.block_size] = static_cast<std::uint8_t>(block.exponent);
    std::copy(block.mantissas.begin(), block.mantissas.end(), blocks.mantissas + first);
  }
}

void add_to_sum(const Operand& in, std::int64_t count, ElementSum& sum) {
  for (std::int64_t i = 0; i < count; ++i) sum.add(read(in, i));
}

}  // namespace tessera::arith::ref
