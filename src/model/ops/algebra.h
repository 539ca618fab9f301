// Einsum and Det: sums over named indices, and determinants.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> einsum_shape(const Call& call);
Result<Outputs> determinant_shape(const Call& call);

Status einsum(const Call& call, std::vector<Tensor>& outputs);
Status determinant(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
