// Recurrent layers: RNN, GRU and LSTM, one time step after the other in binary64.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> recurrent_shape(const Call& call);
Status recurrent(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
