#include "device/backend.h"

namespace tessera::device {

std::vector<Loaded::Tensor> loaded_tensors(const std::vector<TensorDescription>& tensors) {
  std::vector<Loaded::Tensor> result;
  for (const TensorDescription& tensor : tensors) {
    result.push_back(
        {tensor.name, Bytes{element_count(tensor.dims) * format_bytes(tensor.format)}});
  }
  return result;
}

}  // namespace tessera::device
