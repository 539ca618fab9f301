// Derived software run as its users run it: by ONNX Runtime, by Python, or compiled.
//
//   Software ──writer──► file ─┐
//   inputs ──► raw files ──────┴─► node + onnxruntime-node | python3 + torch | a C++ compiler
//                                      └──► raw files ──► outputs
//
// Nothing else of the product needs these programs; where one is missing the error says how to get
// it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "concord/software.h"
#include "tools/files/golden.h"

namespace tessera::tools {

enum class DerivedRuntime { kOnnxRuntime, kPython, kCpp };
const char* runtime_name(DerivedRuntime runtime);  // "onnxruntime", "python", "c++"
Result<DerivedRuntime> runtime_from_name(const std::string& name);
// What `derive --to` calls the form that it runs: "onnx", "pytorch", "cpp".
const char* runtime_target(DerivedRuntime runtime);

struct DerivedRuntimeOptions {
  // The folder that holds node_modules/onnxruntime-node; empty: where
  // scripts/fetch_onnxruntime.sh puts it.
  std::string onnxruntime;
  // So many vectors run under every configuration of a runtime, each further one under one of them
  // in turn; each program begins with another one.
  std::size_t whole_vectors = SIZE_MAX;
};

// A program with the inputs that it is to be run on.
struct DerivedProgram {
  std::string name;
  const concord::Software* software = nullptr;
  std::span<const GoldenVector> vectors;
  std::string file = {};  // of the runtime's form, where it lies already; else a scratch one
};

// What one way of running it gave: a list of outputs per vector.
struct DerivedRun {
  std::string configuration;  // "level all, 2 threads", or empty where there is one way only
  std::vector<std::vector<Tensor>> outputs;  // empty for a vector that was not run
};

// All programs in as few processes as can be; result[program][configuration].
Result<std::vector<std::vector<DerivedRun>>> run_derived(DerivedRuntime runtime,
                                                         std::span<const DerivedProgram> programs,
                                                         const DerivedRuntimeOptions& options);

// The second file of write_derived(), beside the first; empty where there is none.
std::string derived_weights_file(const std::string& target, const std::string& file);

// The file of `target` ("onnx", "pytorch", "cpp"); a Python module's weights are
// written beside it, under its name with the ending .weights. Gives the file's bytes.
Result<std::size_t> write_derived(const std::string& target, const concord::Software& software,
                                  const std::string& file);

}  // namespace tessera::tools
