// Operators that make a tensor from attributes, numbers or a shape.
#pragma once

#include "model/ops/call.h"

namespace tessera::model::ops {

Result<Outputs> constant_shape(const Call& call);  // the operator Constant
Result<Outputs> constant_of_shape_shape(const Call& call);
Result<Outputs> range_shape(const Call& call);
Result<Outputs> eye_like_shape(const Call& call);
Result<Outputs> one_hot_shape(const Call& call);
Result<Outputs> window_shape(const Call& call);  // HannWindow, HammingWindow, BlackmanWindow

Status constant_of_shape(const Call& call, std::vector<Tensor>& outputs);
Status range(const Call& call, std::vector<Tensor>& outputs);
Status eye_like(const Call& call, std::vector<Tensor>& outputs);
Status one_hot(const Call& call, std::vector<Tensor>& outputs);
Status window(const Call& call, std::vector<Tensor>& outputs);

// The format with this number in ONNX's TensorProto.DataType.
Result<Format> format_of_data_type(std::int64_t data_type);

}  // namespace tessera::model::ops
