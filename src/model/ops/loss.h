// Losses: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> loss_shape(const Call& call);
Status loss(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
