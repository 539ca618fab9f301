// A model run by ONNX Runtime in float32 in a child process (tests only).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "inference.h"

namespace ocr {

// One child for all models; it ends with this object.
class OnnxRuntimeServer {
 public:
  // `script` is onnxruntime_server.cjs, `packages` the folder with node_modules.
  static tessera::Result<std::unique_ptr<OnnxRuntimeServer>> start(const std::string& script,
                                                                   const std::string& packages);
  ~OnnxRuntimeServer();
  tessera::Result<tessera::Tensor> run(const std::string& model, const tessera::Tensor& input);

 private:
  OnnxRuntimeServer(pid_t child, int to_child, int from_child)
      : child_(child), to_child_(to_child), from_child_(from_child) {}
  tessera::Status write_all(const void* data, std::size_t size);
  tessera::Status read_all(void* data, std::size_t size);
  tessera::Result<std::string> read_line();

  const pid_t child_;
  const int to_child_, from_child_;
};

// The server outlives the inference.
class OnnxRuntimeInference : public Inference {
 public:
  OnnxRuntimeInference(OnnxRuntimeServer& server, std::string model)
      : server_(server), model_(std::move(model)) {}
  tessera::Result<tessera::Tensor> run(const tessera::Tensor& input) override {
    return server_.run(model_, input);
  }

 private:
  OnnxRuntimeServer& server_;
  const std::string model_;
};

}  // namespace ocr
