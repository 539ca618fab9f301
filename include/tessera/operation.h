// The four functions that a simple accelerator offers: im2col, matrix product, ReLU, maximum
// pooling.
//
//   image ─► im2col ─► matrix product ─► ReLU ─► maximum pooling ─► image
//                            ▲
//               weights: a region that was sent once + an offset in it
//
// Tensors are dense, row-major matrices of the device's vector format (f16 by default): an image
// has a row for each pixel and a column for each channel, so the result of a product is an image
// again.
#pragma once

#include <compare>
#include <cstdint>
#include <variant>

namespace tessera::operations {

// Of an image whose pixels are rows of a matrix, its channels columns.
struct ImageSize {
  std::int64_t rows = 1, columns = 1, channels = 1;
  std::int64_t pixels() const { return rows * columns; }  // rows of the matrix
  friend auto operator<=>(const ImageSize&, const ImageSize&) = default;
};
// A square window, moved by `stride`; `pad` pixels are added on every side.
struct Window {
  std::int64_t size = 1, stride = 1, pad = 0;
  friend auto operator<=>(const Window&, const Window&) = default;
};
// [pixels, channels] to [window positions, size x size x channels]; padding is zero.
struct Im2col {
  ImageSize image;
  Window window;
  friend auto operator<=>(const Im2col&, const Im2col&) = default;
};
// [rows, inner] x weights [inner, columns] to [rows, columns].
struct MatrixProduct {
  std::int64_t rows = 1, inner = 1, columns = 1;
  friend auto operator<=>(const MatrixProduct&, const MatrixProduct&) = default;
};
// Of [rows, columns].
struct Relu {
  std::int64_t rows = 1, columns = 1;
  friend auto operator<=>(const Relu&, const Relu&) = default;
};
// [pixels, channels] to [window positions, channels]; padding does not count.
struct MaximumPool {
  ImageSize image;
  Window window;
  friend auto operator<=>(const MaximumPool&, const MaximumPool&) = default;
};
// One of the four.
using Operation = std::variant<Im2col, MatrixProduct, Relu, MaximumPool>;

}  // namespace tessera::operations
