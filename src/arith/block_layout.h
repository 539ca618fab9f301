// Matrices in blocks: the shape of a tensor that holds a matrix block by block, and of the matrix.
// What lies where is in graph/edge_blocks.h.
#pragma once

#include <cstdint>
#include <string>

#include "arith/tensor.h"

namespace tessera::arith {

struct BlockLayout {
  std::int64_t rows = 0, columns = 0;  // of a block; both 0: no blocks, dense rows
  bool blocked() const { return rows > 0 && columns > 0; }
  friend bool operator==(const BlockLayout&, const BlockLayout&) = default;
};
struct MatrixSize {
  std::int64_t rows = 0, columns = 0;
  friend bool operator==(const MatrixSize&, const MatrixSize&) = default;
};

// The matrix that a tensor of two axes or more is.
MatrixSize matrix_of(const Shape& dims);
// [blocks down, blocks across, rows of a block, columns of a block].
Shape blocked_dims(const Shape& dims, const BlockLayout& layout);
// Empty, or what is wrong about the shapes of a tensor that says it lies in blocks.
std::string broken_blocks(const Shape& dims, const Shape& dense_dims);

}  // namespace tessera::arith
