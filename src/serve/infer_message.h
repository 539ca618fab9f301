// The body of an inference request and its answer (Open Inference Protocol v2): JSON, behind which tensors may lie
// as they are in memory ("binary tensor data").
//
//   {"id": "7", "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}
//   and behind the closing brace 16 bytes, little endian
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "serve/infer_request.h"
#include "tessera/network.h"
#include "tessera/tensor.h"

namespace tessera::serve {

// `header_bytes`: of the JSON in front; empty: all of it is JSON. The error (kInvalidArgument) names the tensor or
// parameter, what was found and what the model takes. Reads foreign bytes; keeps no more than the network's inputs.
Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> header_bytes,
                                 const ModelForm& form, const RegionsOfClient& regions = {});

struct InferAnswer {
  std::string body;
  std::optional<std::size_t> header_bytes;  // of the JSON, where bytes lie behind it
};
// `tensors` are all outputs of the network. Those that lie in a region have only their place here.
InferAnswer write_infer(const std::string& model, const std::string& version,
                        const InferRequest& request,
                        const std::vector<TensorDescription>& descriptions,
                        const std::vector<Tensor>& tensors);

}  // namespace tessera::serve
