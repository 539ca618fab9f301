// What became of a request for inference, and how its answer is made of that.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/failure.h"
#include "serve/infer_request.h"
#include "tessera/tensor.h"

namespace tessera::serve {

// What an answer says of the model that gave it.
struct AnsweringModel {
  std::string name, version;
  ModelForm form;
};

// Exactly one of outputs and failure.
struct InferOutcome {
  InferRequest request;                         // without its inputs
  std::vector<Tensor> outputs;                  // all of the network's
  std::shared_ptr<const AnsweringModel> model;  // shared by its answers; null: there is none
  std::optional<Failure> failure;
  std::chrono::nanoseconds device_time{0};  // of its run; of one that answers several, its share
};

using Send = std::function<void()>;
// Makes the answer, and gives back what sends it.
using Encode = std::function<Send(InferOutcome)>;

}  // namespace tessera::serve
