// Why a request has no result, for every protocol: HTTP's status and gRPC's code are made of it.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace tessera::serve {

enum class Problem {
  kInput,            // of the request
  kNotFound,         // no such model, version or region
  kFull,             // too many requests at once
  kLate,             // its time was over before it was done
  kTooSlow,          // refused at once: it would not have been done in time
  kShuttingDown,     // the server takes no more
  kUnauthenticated,  // no token, or one that nobody has
  kForbidden,        // not this tenant's
  kQuota,            // more than the tenant may
  kRun,              // the run failed
};

struct Failure {
  Problem problem = Problem::kRun;
  std::string message;
};

inline const Failure kShutsDown = {Problem::kShuttingDown, "the server is shutting down"};

// An error of what a client or a file says.
inline Error invalid(std::string text) { return {ErrorCode::kInvalidArgument, std::move(text)}; }

}  // namespace tessera::serve
