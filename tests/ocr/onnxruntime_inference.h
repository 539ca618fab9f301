// The OCR pipeline's models in float32, by ONNX Runtime (tests only).
#pragma once

#include <string>
#include <utility>

#include "inference.h"
#include "onnxruntime_server.h"

namespace ocr {

using OnnxRuntimeServer = tessera::bench::OnnxRuntimeServer;

// The server outlives the inference.
class OnnxRuntimeInference : public Inference {
 public:
  OnnxRuntimeInference(OnnxRuntimeServer& server, std::string model)
      : server_(server), model_(std::move(model)) {}
  tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) override {
    auto answer = server_.run(model_, input);
    if (!answer.ok()) return answer.error();
    return std::move(answer->output);
  }

 private:
  OnnxRuntimeServer& server_;
  const std::string model_;
};

}  // namespace ocr
