// The two errors that a part of the cluster answers with.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace tessera::cluster {

inline Error unavailable(std::string message) {
  return {ErrorCode::kUnavailable, std::move(message)};
}
inline Error invalid(std::string message) {
  return {ErrorCode::kInvalidArgument, std::move(message)};
}

}  // namespace tessera::cluster
