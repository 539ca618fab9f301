// Attention as one operator, and what stands around it in a transformer.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

// Scaled dot product attention with masks, a cache of keys and values, and grouped heads.
Result<Outputs> attention_shape(const Call& call);
Status attention(const Call& call, std::vector<Tensor>& outputs);

// Pairs of elements of each head, turned by an angle that depends on the position.
Result<Outputs> rotary_embedding_shape(const Call& call);
Status rotary_embedding(const Call& call, std::vector<Tensor>& outputs);

// A cache with some rows written anew.
Result<Outputs> tensor_scatter_shape(const Call& call);
Status tensor_scatter(const Call& call, std::vector<Tensor>& outputs);

// Attention without softmax, as a recurrence over a state of keys by values.
Result<Outputs> linear_attention_shape(const Call& call);
Status linear_attention(const Call& call, std::vector<Tensor>& outputs);

// A channel-wise convolution over time that keeps its last inputs.
Result<Outputs> causal_conv_shape(const Call& call);
Status causal_conv(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
