// Operators that rank or accumulate along an axis.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> top_k_shape(const Call& call);
Result<Outputs> cum_sum_shape(const Call& call);

Status top_k(const Call& call, std::vector<Tensor>& outputs);
Status cum_sum(const Call& call, std::vector<Tensor>& outputs);
Status non_max_suppression(const Call& call, std::vector<Tensor>& outputs);  // makes its output

}  // namespace tessera::model::ops
