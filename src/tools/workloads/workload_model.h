// The ONNX model of one operator of given extents.
#pragma once

#include "model/model.h"
#include "repro/workload.h"

namespace tessera::tools {

// Inputs, weights and output are of `format` (a float). Weights are a fixed pattern of values
// between 1 and 2: no two blocks of them are alike, and nothing else about them matters. Not for
// networks.
model::Model workload_model(const repro::Workload& workload, Format format);

// Elements of its weights; 0 for workloads whose operands are all inputs, and for networks.
std::int64_t workload_weights(const repro::Workload& workload);

}  // namespace tessera::tools
