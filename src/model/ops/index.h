// Operators whose positions come from a tensor: gather, scatter and selection. Every index is
// checked against the dimension it points into.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> gather_shape(const Call& call);
Result<Outputs> gather_elements_shape(const Call& call);
Result<Outputs> gather_nd_shape(const Call& call);
Result<Outputs> scatter_elements_shape(const Call& call);
Result<Outputs> scatter_nd_shape(const Call& call);
Result<Outputs> where_shape(const Call& call);

Status gather(const Call& call, std::vector<Tensor>& outputs);
Status gather_elements(const Call& call, std::vector<Tensor>& outputs);
Status gather_nd(const Call& call, std::vector<Tensor>& outputs);
Status scatter_elements(const Call& call, std::vector<Tensor>& outputs);
Status scatter_nd(const Call& call, std::vector<Tensor>& outputs);
Status where(const Call& call, std::vector<Tensor>& outputs);

// These make their outputs: the shape depends on the data.
Status compress(const Call& call, std::vector<Tensor>& outputs);
Status non_zero(const Call& call, std::vector<Tensor>& outputs);
Status unique(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
