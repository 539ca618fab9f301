// Tensors by name in one file, in the layout of safetensors:
//
//   8 bytes: length of the header
//   header: JSON, {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
//   the tensors' bytes
//
// What derived PyTorch modules save after training, and `--weights` reads.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "arith/tensor.h"
#include "base/result.h"

namespace tessera::tools {

// Tensors of F32, F16, I32, I16, U16, I8 and U8 elements. Errors name the file, the tensor and what is wrong.
Result<std::map<std::string, Tensor>> parse_safetensors(std::span<const std::byte> bytes,
                                                        const std::string& path);
Result<std::map<std::string, Tensor>> read_safetensors(const std::string& path);

}  // namespace tessera::tools
