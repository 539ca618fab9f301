// Operators that read a plane at real coordinates given by a tensor.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> grid_sample_shape(const Call& call);
Result<Outputs> roi_align_shape(const Call& call);
Result<Outputs> max_roi_pool_shape(const Call& call);

Status grid_sample(const Call& call, std::vector<Tensor>& outputs);
Status roi_align(const Call& call, std::vector<Tensor>& outputs);
Status max_roi_pool(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
