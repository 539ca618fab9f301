// Copies a plane of elements from one layout to another, such as a matrix to its transpose.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/element_size.h"

namespace tessera {

// In elements; any sign.
struct PlaneStrides {
  std::int64_t row = 0, column = 0;
};

// rows x columns elements of 1, 2, 4 or 8 bytes; (r, c) is at r * row + c * column behind `from` and behind `to`,
// which do not overlap. Square by square, each by way of a small buffer: whole lines are read and written also where
// a power of two lies between rows, whose lines would displace each other in the cache.
inline void copy_plane(std::int64_t element_bytes, std::int64_t rows, std::int64_t columns,
                       const std::byte* from, PlaneStrides from_strides, std::byte* to,
                       PlaneStrides to_strides) {
  if (from_strides.column == 1 && to_strides.column == 1) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::memcpy(to + r * to_strides.row * element_bytes,
                  from + r * from_strides.row * element_bytes,
                  static_cast<std::size_t>(columns * element_bytes));
    }
    return;
  }
  with_element(element_bytes, [&](auto element) {
    using Element = decltype(element);
    constexpr std::int64_t size = sizeof(Element);
    constexpr std::int64_t kSquare = 32;
    std::array<std::array<Element, kSquare>, kSquare> square;  // columns of the plane
    for (std::int64_t row = 0; row < rows; row += kSquare) {
      const std::int64_t height = std::min(rows - row, kSquare);
      for (std::int64_t column = 0; column < columns; column += kSquare) {
        const std::int64_t width = std::min(columns - column, kSquare);
        for (std::int64_t r = 0; r < height; ++r) {
          const std::byte* line =
              from + ((row + r) * from_strides.row + column * from_strides.column) * size;
          for (std::int64_t c = 0; c < width; ++c) {
            std::memcpy(&square[c][r], line + c * from_strides.column * size, sizeof element);
          }
        }
        for (std::int64_t c = 0; c < width; ++c) {
          std::byte* line = to + ((column + c) * to_strides.column + row * to_strides.row) * size;
          for (std::int64_t r = 0; r < height; ++r) {
            std::memcpy(line + r * to_strides.row * size, &square[c][r], sizeof element);
          }
        }
      }
    }
  });
}

}  // namespace tessera
