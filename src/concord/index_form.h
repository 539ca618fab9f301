// Indices of a Gather that follow a rule: sums of a number for each axis, so that the rule is written in place of
// an index for every element.
//
//   a convolution's taps     index[t, i] = t + stride * i - pad; in the padding: the element of zeros
//   shifted rows             index[h, r, c] = shift[h] + 264 r + c; beyond a row's ends: the element of zeros
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arith/tensor.h"

namespace tessera::concord {

struct IndexForm {
  // index = sum of along[k][i_k] over the axes k, unless it is the outside's
  std::vector<std::vector<std::int64_t>> along;
  // Where the sum is below 0 or beyond `outside`, or where `mask` says so, the index is `outside`.
  enum class Outside { kNowhere, kBySum, kByMask } outside_is = Outside::kNowhere;
  std::int64_t outside = 0;
  Tensor mask = {};  // bool; extents are those of the indices or 1
};

// Of constant i64 indices, if the rule takes much less than they do.
std::optional<IndexForm> index_form(const Tensor& indices);

}  // namespace tessera::concord
