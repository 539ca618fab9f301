#include "device/device_form.h"

#include <algorithm>
#include <cstring>

#include "arith/vector_ops.h"
#include "base/check.h"

namespace tessera::device {
namespace {

using graph::BlockLayout;
using graph::EdgeConversion;
using graph::MatrixSize;

// The operations of arith, fast or one element at a time.
struct Simd {
  static void convert(const arith::Operand& in, const arith::Output& out) {
    arith::simd::convert(in, out);
  }
  static void quantize(const arith::Operand& in, const Affine& affine, const arith::Output& out) {
    arith::simd::quantize(in, affine.scale, affine.zero_point, out);
  }
  static void dequantize(const arith::Operand& in, const Affine& affine, const arith::Output& out) {
    arith::simd::dequantize(in, affine.scale, affine.zero_point, out);
  }
};
struct Plain {
  static void convert(const arith::Operand& in, const arith::Output& out) {
    arith::ref::convert(in, out);
  }
  static void quantize(const arith::Operand& in, const Affine& affine, const arith::Output& out) {
    arith::ref::quantize(in, affine.scale, affine.zero_point, out);
  }
  static void dequantize(const arith::Operand& in, const Affine& affine, const arith::Output& out) {
    arith::ref::dequantize(in, affine.scale, affine.zero_point, out);
  }
};

bool is_integer(Format format) { return format == Format::kI8 || format == Format::kU8; }

template <typename Way>
void convert_run(const EdgeConversion& conversion, const std::byte* from, std::byte* to,
                 std::int64_t count) {
  if (count == 0) return;  // there may be no bytes to point at
  const arith::Operand in{conversion.from, from};
  const arith::Output out{conversion.to, to, count};
  if (conversion.from == conversion.to) {
    std::memcpy(to, from, static_cast<std::size_t>(count * format_bytes(conversion.to)));
  } else if (!conversion.quantised.enabled) {
    Way::convert(in, out);
  } else if (is_integer(conversion.to)) {
    Way::quantize(in, conversion.quantised, out);
  } else {
    Way::dequantize(in, conversion.quantised, out);
  }
}

void check_sizes(const EdgeConversion& conversion, std::int64_t from_elements,
                 std::span<const std::byte> from, std::int64_t to_elements,
                 std::span<std::byte> to) {
  TESSERA_CHECK(std::ssize(from) == from_elements * format_bytes(conversion.from) &&
                    std::ssize(to) == to_elements * format_bytes(conversion.to),
                "{} and {} bytes for {} and {} elements", from.size(), to.size(), from_elements,
                to_elements);
}

std::int64_t blocked_elements(const MatrixSize& size, const BlockLayout& layout) {
  return round_up(size.rows, layout.rows) * round_up(size.columns, layout.columns);
}

// Where element (row, column) lies among the blocks.
std::int64_t blocked_place(std::int64_t row, std::int64_t column, const MatrixSize& size,
                           const BlockLayout& layout) {
  const std::int64_t across = ceil_div(size.columns, layout.columns);
  const std::int64_t block = row / layout.rows * across + column / layout.columns;
  return (block * layout.rows + row % layout.rows) * layout.columns + column % layout.columns;
}

// Calls run(row, column, count) for every stretch of a row that lies in one block.
template <typename Run>
void for_stretches(const MatrixSize& size, const BlockLayout& layout, const Run& run) {
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; column += layout.columns) {
      run(row, column, std::min(layout.columns, size.columns - column));
    }
  }
}

}  // namespace

Bytes blocked_bytes(const MatrixSize& size, const BlockLayout& layout, std::int64_t element) {
  return Bytes{blocked_elements(size, layout) * element};
}

void convert(const EdgeConversion& conversion, std::span<const std::byte> from,
             std::span<std::byte> to) {
  const std::int64_t count = std::ssize(from) / format_bytes(conversion.from);
  check_sizes(conversion, count, from, count, to);
  convert_run<Simd>(conversion, from.data(), to.data(), count);
}

void to_blocks(const EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to) {
  const MatrixSize& size = conversion.matrix;
  const BlockLayout& layout = conversion.layout;
  check_sizes(conversion, size.rows * size.columns, from, blocked_elements(size, layout), to);
  const std::int64_t in = format_bytes(conversion.from), out = format_bytes(conversion.to);
  const bool whole = size.rows % layout.rows == 0 && size.columns % layout.columns == 0;
  if (!whole) std::fill(to.begin(), to.end(), std::byte{0});
  for_stretches(size, layout, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
    convert_run<Simd>(conversion, from.data() + (row * size.columns + column) * in,
                      to.data() + blocked_place(row, column, size, layout) * out, count);
  });
}

void from_blocks(const EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to) {
  const MatrixSize& size = conversion.matrix;
  const BlockLayout& layout = conversion.layout;
  check_sizes(conversion, blocked_elements(size, layout), from, size.rows * size.columns, to);
  const std::int64_t in = format_bytes(conversion.from), out = format_bytes(conversion.to);
  for_stretches(size, layout, [&](std::int64_t row, std::int64_t column, std::int64_t count) {
    convert_run<Simd>(conversion, from.data() + blocked_place(row, column, size, layout) * in,
                      to.data() + (row * size.columns + column) * out, count);
  });
}

void to_device(const EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to) {
  conversion.layout.blocked() ? to_blocks(conversion, from, to) : convert(conversion, from, to);
}

void from_device(const EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to) {
  conversion.layout.blocked() ? from_blocks(conversion, from, to) : convert(conversion, from, to);
}

namespace plain {

void convert(const EdgeConversion& conversion, std::span<const std::byte> from,
             std::span<std::byte> to) {
  const std::int64_t in = format_bytes(conversion.from), out = format_bytes(conversion.to);
  for (std::int64_t i = 0; i < std::ssize(from) / in; ++i) {
    convert_run<Plain>(conversion, from.data() + i * in, to.data() + i * out, 1);
  }
}

void to_blocks(const EdgeConversion& conversion, std::span<const std::byte> from,
               std::span<std::byte> to) {
  const MatrixSize& size = conversion.matrix;
  const BlockLayout& layout = conversion.layout;
  const std::int64_t in = format_bytes(conversion.from), out = format_bytes(conversion.to);
  std::fill(to.begin(), to.end(), std::byte{0});
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; ++column) {
      convert_run<Plain>(conversion, from.data() + (row * size.columns + column) * in,
                         to.data() + blocked_place(row, column, size, layout) * out, 1);
    }
  }
}

void from_blocks(const EdgeConversion& conversion, std::span<const std::byte> from,
                 std::span<std::byte> to) {
  const MatrixSize& size = conversion.matrix;
  const BlockLayout& layout = conversion.layout;
  const std::int64_t in = format_bytes(conversion.from), out = format_bytes(conversion.to);
  for (std::int64_t row = 0; row < size.rows; ++row) {
    for (std::int64_t column = 0; column < size.columns; ++column) {
      convert_run<Plain>(conversion, from.data() + blocked_place(row, column, size, layout) * in,
                         to.data() + (row * size.columns + column) * out, 1);
    }
  }
}

}  // namespace plain

namespace {

void add_layouts(const std::vector<EdgeConversion>& layouts,
                 std::vector<EdgeConversion>& conversions) {
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    conversions[i].layout = layouts[i].layout;
    conversions[i].matrix = layouts[i].matrix;
  }
}

}  // namespace

Result<NetworkInDeviceForm> in_device_form(const NetworkState& network,
                                           const LoadOptions& options) {
  graph::ConvertedGraph converted =
      graph::take_edge_conversions(graph::dense_edges(network.graph()));
  TESSERA_TRY(
      Network compiled,
      network::network_from_graph(std::make_shared<const graph::Graph>(std::move(converted.graph)),
                                  network.chip, options));
  add_layouts(compiled.state().input_layouts, converted.inputs);
  add_layouts(compiled.state().output_layouts, converted.outputs);
  return NetworkInDeviceForm{std::move(compiled), std::move(converted.inputs),
                             std::move(converted.outputs)};
}

}  // namespace tessera::device
