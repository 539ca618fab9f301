// Domains of operators, as models name them.
#pragma once

#include <string>

namespace tessera::model {

// "" for "ai.onnx", which is the same domain.
inline std::string import_domain(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

}  // namespace tessera::model
