#include "serve/grpc/status.h"

namespace tessera::serve {
namespace {

grpc::StatusCode code_of(Problem problem) {
  switch (problem) {
    case Problem::kInput:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Problem::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Problem::kLate:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case Problem::kFull:
    case Problem::kTooSlow:
    case Problem::kShuttingDown:
      return grpc::StatusCode::UNAVAILABLE;
    case Problem::kUnauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case Problem::kForbidden:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Problem::kQuota:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Problem::kRun:
      break;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

grpc::Status status_of(const Failure& failure) {
  return {code_of(failure.problem), failure.message};
}

}  // namespace tessera::serve
