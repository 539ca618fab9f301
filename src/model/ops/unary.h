// Element-wise operators of one tensor.
#pragma once

#include "arith/operation.h"
#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> float_same_shape(const Call& call);  // one float input, output like it
Result<Outputs> float_to_bool_shape(const Call& call);
Result<Outputs> not_shape(const Call& call);           // all is bool
Result<Outputs> integer_same_shape(const Call& call);  // integers only
Result<Outputs> cast_shape(const Call& call);
Result<Outputs> cast_like_shape(const Call& call);
Result<Outputs> bit_cast_shape(const Call& call);
Result<Outputs> gated_shape(const Call& call);  // SwiGLU
Result<Outputs> clip_shape(const Call& call);

Status float_function(const Call& call, std::vector<Tensor>& outputs);    // Exp, Sigmoid, ...
Status numeric_function(const Call& call, std::vector<Tensor>& outputs);  // Abs, Neg, Sign, Relu
Status cast(const Call& call, std::vector<Tensor>& outputs);
Status swish(const Call& call, std::vector<Tensor>& outputs);  // Swish, SwiGLU
Status clip(const Call& call, std::vector<Tensor>& outputs);
Status shrink(const Call& call, std::vector<Tensor>& outputs);
Status is_nan(const Call& call, std::vector<Tensor>& outputs);
Status is_inf(const Call& call, std::vector<Tensor>& outputs);
Status logical_not(const Call& call, std::vector<Tensor>& outputs);
Status bitwise_not(const Call& call, std::vector<Tensor>& outputs);

// The function of arith/operation.h that a node stands for, with the node's parameters.
Activation activation_of(const Call& call);

}  // namespace tessera::model::ops
