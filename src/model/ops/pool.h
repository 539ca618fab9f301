// Pooling: windows reduced to one value, channel by channel.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> max_pool_shape(const Call& call);
Result<Outputs> average_pool_shape(const Call& call);  // AveragePool, LpPool
Result<Outputs> global_pool_shape(const Call& call);
Result<Outputs> max_unpool_shape(const Call& call);

Status max_pool(const Call& call, std::vector<Tensor>& outputs);
Status average_pool(const Call& call, std::vector<Tensor>& outputs);
Status lp_pool(const Call& call, std::vector<Tensor>& outputs);
Status global_pool(const Call& call, std::vector<Tensor>& outputs);  // average, maximum, Lp
Status max_unpool(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
