// Features of sound and text that come before a network.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> mel_weight_matrix_shape(const Call& call);
Status mel_weight_matrix(const Call& call, std::vector<Tensor>& outputs);

// Counts of n-grams of integers.
Result<Outputs> tf_idf_shape(const Call& call);
Status tf_idf(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
