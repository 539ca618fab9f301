// Resize (opset 10 on) and Upsample (up to opset 9): values at positions between the elements.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> resize_shape(const Call& call);
Status resize(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
