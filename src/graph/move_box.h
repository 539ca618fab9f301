// Boxes of copies (graph.h, CopyBox): how movement operators are written as strided boxes, and how
// two boxes become one.
//
//   input  ──[ offset + sum i_k * input_stride_k ]──►  output[ offset + sum i_k * output_stride_k ]
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "arith/tensor.h"
#include "graph/graph.h"

namespace tessera::graph {

inline constexpr std::size_t kBoxAxesMax = 8;
inline constexpr std::size_t kBoxesMax = 4096;

// Elements between neighbours along each axis of a dense tensor.
std::vector<std::int64_t> row_major_strides(const Shape& dims);

// All elements in order: the box of a reshape. `count` >= 1.
CopyBox dense_box(std::int64_t count);
// output axis k is input axis permutation[k]; the output is dense.
CopyBox permuted_box(const Shape& input_dims, const std::vector<std::int64_t>& permutation);

// How `dims` is repeated along axes of extent 1 to become `wanted`, a shape of the same rank: one box,
// or where that takes more than kBoxAxesMax axes, several behind each other, each with the shape
// that it makes of a dense tensor. None where the shapes are equal.
struct RepeatingStep {
  CopyBox box;
  Shape dims;
};
std::vector<RepeatingStep> repeating_steps(Shape dims, const Shape& wanted);

// The same copies with axes of extent 1 dropped and neighbouring axes joined where both sides go on.
CopyBox joined(const CopyBox& box);
// The same with at least one axis.
CopyBox simplified(const CopyBox& box);

// Two boxes as one, where the second goes on behind the first along one axis, on both sides: neighbouring parts of a tensor that
// are put side by side again. Nothing else, and nothing of two inputs.
std::optional<CopyBox> continued(const CopyBox& first, const CopyBox& second);

// One axis of a movement that treats axes apart: for each output coordinate the input coordinate,
// or -1 where the fill stays.
using IndexMap = std::vector<std::int64_t>;
// 0, 1, ... count-1.
IndexMap identity_map(std::int64_t count);
// output[i0, i1, ...] = input[maps[0][i0], maps[1][i1], ...]. Nothing if more than kBoxesMax boxes
// or kBoxAxesMax axes would be needed. Runs of constant step become one box.
std::optional<MoveAttributes> move_by_index_maps(const Shape& input_dims,
                                                 const std::vector<IndexMap>& maps);

// `first` writes every element of a dense tensor of `count` elements, `second` reads that tensor:
// one box that reads what `first` reads and writes what `second` writes. Nothing if that takes more
// than one box.
std::optional<CopyBox> composed(const CopyBox& first, std::int64_t count, const CopyBox& second);

// Whether the box reads and writes all of `count` elements in the same dense order.
bool is_dense_copy(const CopyBox& box, std::int64_t count);
// The inputs that boxes read, each once, in the order of the boxes, which are numbered anew.
std::vector<TensorId> inputs_read(const std::vector<TensorId>& inputs,
                                  std::vector<CopyBox>& copies);
// Elements that the box copies.
std::int64_t box_elements(const CopyBox& box);
// First and last element position that a side of the box touches; all there are, if they are beyond 64 bits.
struct ElementRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};
ElementRange input_range(const CopyBox& box);
ElementRange output_range(const CopyBox& box);

// The move carried out (constant folding). All inputs have format `format`.
Tensor moved(const MoveAttributes& move, std::span<const Tensor* const> inputs, Format format,
             const Shape& output_dims);

}  // namespace tessera::graph
