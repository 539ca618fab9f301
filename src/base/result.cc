#include "base/result.h"

namespace tessera {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kInvalidModel:
      return "invalid model";
    case ErrorCode::kDoesNotFit:
      return "does not fit";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kInternal:
      break;
  }
  return "internal";
}

std::string Error::to_string() const { return message + "   [" + error_code_name(code) + "]"; }

Error Error::with_context(const std::string& context) const {
  return Error{code, context + ": " + message};
}

}  // namespace tessera
