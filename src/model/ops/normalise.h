// Normalisations: values shifted and scaled by statistics of their neighbourhood. Everything is
// computed in binary64 and rounded once.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> batch_normalization_shape(const Call& call);
Result<Outputs> channel_normalization_shape(const Call& call);  // Instance- and Group-
Result<Outputs> layer_normalization_shape(const Call& call);
Result<Outputs> rms_normalization_shape(const Call& call);
Result<Outputs> lrn_shape(const Call& call);
Result<Outputs> mean_variance_shape(const Call& call);
Result<Outputs> lp_normalization_shape(const Call& call);

Status batch_normalization(const Call& call, std::vector<Tensor>& outputs);
Status channel_normalization(const Call& call, std::vector<Tensor>& outputs);
Status layer_normalization(const Call& call, std::vector<Tensor>& outputs);
Status rms_normalization(const Call& call, std::vector<Tensor>& outputs);
Status lrn(const Call& call, std::vector<Tensor>& outputs);
Status mean_variance(const Call& call, std::vector<Tensor>& outputs);
Status lp_normalization(const Call& call, std::vector<Tensor>& outputs);

}  // namespace tessera::model::ops
