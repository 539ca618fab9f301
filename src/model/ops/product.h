// Matrix products and convolutions, by definition, with binary64 or exact integer sums.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> matmul_shape(const Call& call);
Result<Outputs> gemm_shape(const Call& call);
Result<Outputs> conv_shape(const Call& call);
Result<Outputs> conv_transpose_shape(const Call& call);
Result<Outputs> matmul_integer_shape(const Call& call);
Result<Outputs> conv_integer_shape(const Call& call);
Result<Outputs> qlinear_matmul_shape(const Call& call);
Result<Outputs> qlinear_conv_shape(const Call& call);

Status matmul(const Call& call, std::vector<Tensor>& outputs);
Status gemm(const Call& call, std::vector<Tensor>& outputs);
Status conv(const Call& call, std::vector<Tensor>& outputs);
Status conv_transpose(const Call& call, std::vector<Tensor>& outputs);
Status matmul_integer(const Call& call, std::vector<Tensor>& outputs);
Status conv_integer(const Call& call, std::vector<Tensor>& outputs);
Status qlinear_matmul(const Call& call, std::vector<Tensor>& outputs);
Status qlinear_conv(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
