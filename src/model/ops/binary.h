// Element-wise operators of several tensors, which are broadcast to a common shape.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> binary_shape(const Call& call);      // output has input 0's format
Result<Outputs> comparison_shape(const Call& call);  // output is bool
Result<Outputs> logical_shape(const Call& call);     // all is bool
Result<Outputs> power_shape(const Call& call);       // the exponent may have another format
Result<Outputs> integer_shape(const Call& call);     // integers only
Result<Outputs> bit_shift_shape(const Call& call);
Result<Outputs> modulo_shape(const Call& call);
Result<Outputs> prelu_shape(const Call& call);
Result<Outputs> variadic_shape(const Call& call);

Status arithmetic(const Call& call, std::vector<Tensor>& outputs);  // Add, Sub, Mul, Div, PRelu
Status power(const Call& call, std::vector<Tensor>& outputs);
Status modulo(const Call& call, std::vector<Tensor>& outputs);
Status bit_operation(const Call& call, std::vector<Tensor>& outputs);  // BitShift, BitwiseAnd, ...
Status comparison(const Call& call, std::vector<Tensor>& outputs);
Status logical(const Call& call, std::vector<Tensor>& outputs);
Status variadic(const Call& call, std::vector<Tensor>& outputs);  // Max, Min, Sum, Mean

}  // namespace tessera::model::ops
