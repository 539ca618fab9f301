// The messages of an inference request over gRPC and what a model takes and gives.
#pragma once

#include <chrono>

#include "base/result.h"
#include "serve/infer_outcome.h"
#include "serve/infer_request.h"

namespace inference {
class ModelInferRequest;
class ModelInferResponse;
}  // namespace inference

namespace tessera::serve {

// Tensors lie in `contents` or raw, or in shared memory. The error names the tensor or parameter, what was found and
// what the model takes.
Result<InferRequest> parse_infer(const inference::ModelInferRequest& message, const ModelForm& form,
                                 const RegionsOfClient& regions);
// Outputs are raw. `outcome` has no failure.
void write_infer(const InferOutcome& outcome, inference::ModelInferResponse& message);

// The call's own deadline is a timeout, too.
void set_deadline(InferRequest& request, std::chrono::system_clock::time_point deadline);

}  // namespace tessera::serve
