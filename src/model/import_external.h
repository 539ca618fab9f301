// Tensor data in a separate file next to the model. The name in the model is untrusted: it may
// only lead to a regular file inside the model's folder, and the sizes it states are compared with
// that file before anything is allocated.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "model/tensor_import.h"

namespace tessera::model {

// The `bytes` bytes of a tensor with data_location EXTERNAL.
Result<std::vector<std::byte>> read_external_data(const onnx::TensorProto& proto,
                                                  std::int64_t bytes, TensorImport& context);

}  // namespace tessera::model
