// Discrete Fourier transforms, by definition.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> dft_shape(const Call& call);
Result<Outputs> stft_shape(const Call& call);

Status dft(const Call& call, std::vector<Tensor>& outputs);
Status stft(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
