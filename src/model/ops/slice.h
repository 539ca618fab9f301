// Operators that cut, join, repeat and pad tensors.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> concat_shape(const Call& call);
Result<Outputs> split_shape(const Call& call);
Result<Outputs> slice_shape(const Call& call);
Result<Outputs> expand_shape(const Call& call);
Result<Outputs> tile_shape(const Call& call);
Result<Outputs> pad_shape(const Call& call);

Status concat(const Call& call, std::vector<Tensor>& outputs);
Status split(const Call& call, std::vector<Tensor>& outputs);
Status slice(const Call& call, std::vector<Tensor>& outputs);
Status expand(const Call& call, std::vector<Tensor>& outputs);
Status tile(const Call& call, std::vector<Tensor>& outputs);
Status pad(const Call& call, std::vector<Tensor>& outputs);
Status reverse_sequence(const Call& call, std::vector<Tensor>& outputs);
Status trilu(const Call& call, std::vector<Tensor>& outputs);
Result<Outputs> reverse_sequence_shape(const Call& call);
Result<Outputs> trilu_shape(const Call& call);

}  // namespace tessera::model::ops
