// The ONNX model of one operator of given extents.
#pragma once

#include "model/model.h"
#include "repro/workload.h"

namespace tessera::tools {

// Inputs, weights and output are of `format` (a float). Weights are a fixed pattern of values
// between 1 and 2: no two blocks of them are alike, and nothing else about them matters. Not for
// networks.
//
// Attention, layer norms and softmaxes come in `parts` of about the same size, one after the other:
// attention in groups of heads, and from as many parts as heads on each head in bands of queries;
// the others in bands of their first axis. A part's intermediate results then fit where those of
// the whole do not. Products and convolutions come in parts of the sum, which are added up, each
// rounded to the format. At most as many parts as there are heads and queries, rows, or channels of
// the sum.
model::Model workload_model(const repro::Workload& workload, Format format, std::int64_t parts);

// Elements of the largest result that parts make smaller; 0 of workloads without parts.
std::int64_t workload_intermediates(const repro::Workload& workload);

// Terms of a sum of its product; 0 of workloads without weights.
std::int64_t workload_depth(const repro::Workload& workload);

// Elements of its weights; 0 for workloads whose operands are all inputs, and for networks.
std::int64_t workload_weights(const repro::Workload& workload);

}  // namespace tessera::tools
