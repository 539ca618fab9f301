// The scripts that run derived software in other runtimes, as texts.
#pragma once

#include <string_view>

namespace tessera {

extern const std::string_view kOnnxRuntimeDriver, kPythonDriver;

}  // namespace tessera
