// A model run by ONNX Runtime, in a child process: the reference of the benchmarks and
// of the agreement tests. Nothing that ships depends on it.
//
//   this process ──(JSON line, bytes)──────► node onnxruntime_server.cjs ──► onnxruntime-node
//                ◄─(JSON line, f32 bytes)──
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/result.h"
#include "tessera/tensor.h"

namespace tessera::bench {

struct OnnxRuntimeAnswer {
  Tensor output;            // the model's first output
  double milliseconds = 0;  // of the run alone, measured in the child
};

struct OnnxRuntimeAnswers {
  std::vector<Tensor> outputs;  // all of the model's
  double milliseconds = 0;      // of the run alone, measured in the child
};

// One child for all models; it ends with this object. Not for several threads at once.
class OnnxRuntimeServer {
 public:
  struct Options {
    std::string script;    // onnxruntime_server.cjs
    std::string packages;  // the folder with node_modules/onnxruntime-node
    int threads = 2;
    bool spinning = true;  // false: better where several models take turns
  };
  // The error says whether node or the package is what is missing.
  static Result<std::unique_ptr<OnnxRuntimeServer>> start(const Options& options);
  ~OnnxRuntimeServer();
  OnnxRuntimeServer(const OnnxRuntimeServer&) = delete;
  OnnxRuntimeServer& operator=(const OnnxRuntimeServer&) = delete;

  // `input` is f32, u8 or i8 and goes to the model's first input; its first output is f32. The
  // first run of a model loads it.
  Result<OnnxRuntimeAnswer> run(const std::string& model, const Tensor& input);
  // A model with several inputs, in their order, and outputs; of f32, f16, u8, i8, i32, i64 and
  // bool.
  Result<OnnxRuntimeAnswers> run_all(const std::string& model, const std::vector<Tensor>& inputs);
  // Mean microseconds of each of its own nodes, by name, over `runs` runs with its profiler on.
  Result<std::map<std::string, double>> layer_times(const std::string& model,
                                                    const std::vector<Tensor>& inputs, int runs);
  const std::string& version() const { return version_; }  // of onnxruntime-node

 private:
  OnnxRuntimeServer(pid_t child, int to_child, int from_child)
      : child_(child), to_child_(to_child), from_child_(from_child) {}
  // `profiled_runs` 0: one run that is answered with the outputs.
  Status send_inputs(const std::string& model, const std::vector<Tensor>& inputs,
                     int profiled_runs);
  Status send(const std::string& model, const Tensor& input);
  Status write_all(const void* data, std::size_t size);
  Status read_all(void* data, std::size_t size);
  Result<std::string> read_line();

  const pid_t child_;
  const int to_child_, from_child_;
  std::string version_;
};

}  // namespace tessera::bench
