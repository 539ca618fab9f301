// Texts that written programs begin with, each kept as a file of its own language.
#pragma once

#include <string_view>

namespace tessera {

extern const std::string_view kCppTensors;         // derived_tensors.cpp, and behind it
extern const std::string_view kCppRuntime;         // derived_runtime.cpp
extern const std::string_view kPytorchRuntime;     // derived_pytorch.py
extern const std::string_view kTensorflowRuntime;  // derived_tensorflow.py
extern const std::string_view kPythonRuntime;      // derived_python.py, behind either of them

}  // namespace tessera
