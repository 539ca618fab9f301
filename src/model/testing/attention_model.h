// A decoder in small, for tests of states that grow: one layer of attention whose keys and values are inputs and outputs.
#pragma once

#include <cstdint>
#include <string>

#include "arith/tensor.h"

namespace tessera::model::testing {

// softmax(q k^T + mask) v, where keys and values grow by what x gives; the inputs are x, past.k, past.v and mask, the outputs
// y, present.k and present.v. The mask has an element for each row; rows of -30000 are left out. The bytes of an ONNX file.
std::string attention_model();

inline constexpr std::int64_t kAttentionHeads = 2, kAttentionWidth = 16;
// x of the step.
Tensor attention_token(int step);
// Of so many rows, of which the first `seen` count.
Tensor attention_mask(std::int64_t rows, std::int64_t seen);
// Sines, between -1 and 1.
Tensor waves(const Shape& dims, int seed);

}  // namespace tessera::model::testing
