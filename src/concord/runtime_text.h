// Texts that written programs begin with, each kept as a file of its own language.
#pragma once

#include <string_view>

namespace tessera {

extern const std::string_view kCppTensors;      // write/begin/tensors.cpp, and behind it
extern const std::string_view kCppRuntime;      // write/begin/runtime.cpp
extern const std::string_view kPytorchRuntime;  // write/begin/pytorch.py
extern const std::string_view kPythonRuntime;   // write/begin/python.py, behind either of them

}  // namespace tessera
