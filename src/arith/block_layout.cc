#include "arith/block_layout.h"

#include <fmt/format.h>

#include "base/quantity.h"

namespace tessera::arith {

MatrixSize matrix_of(const Shape& dims) {
  MatrixSize size{1, dims.back()};
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) size.rows *= dims[i];
  return size;
}

Shape blocked_dims(const Shape& dims, const BlockLayout& layout) {
  const MatrixSize size = matrix_of(dims);
  return {ceil_div(size.rows, layout.rows), ceil_div(size.columns, layout.columns), layout.rows,
          layout.columns};
}

std::string broken_blocks(const Shape& dims, const Shape& dense_dims) {
  const auto text = [](const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); };
  constexpr std::int64_t kElementsMax = std::int64_t{1} << 44, kSideMax = 1 << 16;
  std::int64_t elements = dense_dims.size() < 2 ? 0 : 1;
  for (const std::int64_t extent : dense_dims) {
    const bool out = extent < 1 || extent > kElementsMax || elements > kElementsMax / extent;
    elements = out ? 0 : elements * extent;
  }
  if (elements == 0) return text(dense_dims) + " is no matrix that lies in blocks";
  const auto is_side = [](std::int64_t extent) { return extent > 0 && extent <= kSideMax; };
  const bool sizes = dims.size() == 4 && is_side(dims[2]) && is_side(dims[3]);
  if (sizes && dims == blocked_dims(dense_dims, {dims[2], dims[3]})) return "";
  return fmt::format("{} are not the blocks of a matrix {}", text(dims), text(dense_dims));
}

}  // namespace tessera::arith
