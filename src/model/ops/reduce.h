// Reductions along axes, and functions of whole rows.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> reduce_shape(const Call& call);      // ReduceSum, ReduceMax, ...
Result<Outputs> arg_reduce_shape(const Call& call);  // ArgMax, ArgMin
Result<Outputs> softmax_shape(const Call& call);     // Softmax, LogSoftmax, Hardmax

Status reduce(const Call& call, std::vector<Tensor>& outputs);
Status arg_reduce(const Call& call, std::vector<Tensor>& outputs);
Status softmax(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
