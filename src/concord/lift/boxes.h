// Finds strided boxes in a tensor of tags: each box is one value's elements at constant steps along
// up to eight axes. Boxes grow greedily from the first element that is in none, along the tensor's
// axes from the last to the first, and within an axis level by level (0 1 2 0 1 2 is a run of
// three, twice).
#pragma once

#include <cstdint>
#include <vector>

#include "arith/tensor.h"
#include "concord/lift/tags.h"

namespace tessera::concord {

// Elements of one value, or of one of the operand's constants (value kWeights: `constant`).
struct SourceBox {
  LiftedValue value = kNothing;
  std::size_t constant = 0;
  std::int64_t input_offset = 0, output_offset = 0;  // elements
  std::vector<std::int64_t> extents, input_strides, output_strides;
};

// Tags name whole elements here: granule = element. Elements of kNothing belong to no box; with
// `over_unread` a box may run over them. The boxes come in the order of their first elements.
std::vector<SourceBox> find_boxes(const Shape& dims, const std::vector<Tag>& elements,
                                  bool over_unread);

}  // namespace tessera::concord
