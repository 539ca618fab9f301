#include "model/ops/errors.h"

#include <utility>

namespace tessera::model::ops {

Error invalid(std::string message) { return {ErrorCode::kInvalidModel, std::move(message)}; }
Error unsupported(std::string message) { return {ErrorCode::kUnsupported, std::move(message)}; }

std::string shape_text(const Shape& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return dims.empty() ? "scalar" : text;
}

}  // namespace tessera::model::ops
