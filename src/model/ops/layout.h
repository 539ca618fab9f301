// Operators that rename or permute positions and leave every element as it is.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> shape_shape(const Call& call);  // the operator Shape; its value follows from shapes
Result<Outputs> size_shape(const Call& call);
Result<Outputs> reshape_shape(const Call& call);
Result<Outputs> squeeze_shape(const Call& call);
Result<Outputs> unsqueeze_shape(const Call& call);
Result<Outputs> flatten_shape(const Call& call);
Result<Outputs> same_shape(const Call& call);  // output 0 is like input 0
Result<Outputs> transpose_shape(const Call& call);
Result<Outputs> depth_to_space_shape(const Call& call);
Result<Outputs> space_to_depth_shape(const Call& call);
Result<Outputs> dropout_shape(const Call& call);

Status copy_bytes(const Call& call, std::vector<Tensor>& outputs);  // same elements, same order
Status transpose(const Call& call, std::vector<Tensor>& outputs);
Status depth_to_space(const Call& call, std::vector<Tensor>& outputs);
Status space_to_depth(const Call& call, std::vector<Tensor>& outputs);
Status dropout(const Call& call, std::vector<Tensor>& outputs);
Status no_elements(const Call& call, std::vector<Tensor>& outputs);  // all known from shapes

}  // namespace tessera::model::ops
