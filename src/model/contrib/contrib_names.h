// Operators of com.microsoft, of ai.onnx.ml and of ai.onnx before it was stable that are written out in those of the standard.
#pragma once

#include <string>
#include <vector>

namespace tessera::model {

std::vector<std::string> contrib_operators();           // sorted
std::vector<std::string> machine_learning_operators();  // of ai.onnx.ml, sorted
std::vector<std::string> former_operators();            // of ai.onnx, sorted

}  // namespace tessera::model
