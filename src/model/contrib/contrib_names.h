// Operators of com.microsoft and ai.onnx.ml that are written out in those of the standard.
#pragma once

#include <string>
#include <vector>

namespace tessera::model {

std::vector<std::string> contrib_operators();           // sorted
std::vector<std::string> machine_learning_operators();  // of ai.onnx.ml, sorted

}  // namespace tessera::model
