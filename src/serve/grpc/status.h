// A failure as gRPC's clients see it.
#pragma once

#include <grpcpp/support/status.h>

#include "serve/failure.h"

namespace tessera::serve {

grpc::Status status_of(const Failure& failure);

}  // namespace tessera::serve
