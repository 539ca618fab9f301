// The body of an inference request and its answer (Open Inference Protocol v2): JSON, behind which tensors may lie
// as they are in memory ("binary tensor data").
//
//   {"id": "7", "inputs": [{"name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": {"binary_data_size": 16}}]}
//   and behind the closing brace 16 bytes, little endian
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tessera/network.h"
#include "tessera/tensor.h"

namespace tessera::serve {

// What an answer is to have.
struct WantedOutput {
  std::size_t index = 0;  // of the network's outputs
  bool binary = false;    // behind the JSON
};

struct InferRequest {
  std::string id;              // given back; may be empty
  std::vector<Tensor> inputs;  // in the order of the network's
  std::vector<WantedOutput> outputs;
  int priority = 0;                                  // as SubmitOptions has it
  std::optional<std::chrono::microseconds> timeout;  // from now on
};

// `header_bytes`: of the JSON in front; empty: all of it is JSON. The error (kInvalidArgument) names the tensor or
// parameter, what was found and what the model takes. Reads foreign bytes; keeps no more than the network's inputs.
Result<InferRequest> parse_infer(std::string_view body, std::optional<std::size_t> header_bytes,
                                 const std::vector<TensorDescription>& inputs,
                                 const std::vector<TensorDescription>& outputs);

struct InferAnswer {
  std::string body;
  std::optional<std::size_t> header_bytes;  // of the JSON, where bytes lie behind it
};
// `tensors` are all outputs of the network.
InferAnswer write_infer(const std::string& model, const std::string& version,
                        const InferRequest& request,
                        const std::vector<TensorDescription>& descriptions,
                        const std::vector<Tensor>& tensors);

}  // namespace tessera::serve
