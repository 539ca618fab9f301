#include "model/model.h"

namespace tessera::model {

const char* value_kind_name(ValueKind kind) {
  switch (kind) {
    case ValueKind::kTensor:
      return "a tensor";
    case ValueKind::kSequence:
      return "a sequence";
    case ValueKind::kOptional:
      return "an optional";
    case ValueKind::kOptionalSequence:
      return "an optional sequence";
  }
  return "";
}

}  // namespace tessera::model
