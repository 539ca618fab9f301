// The build without UCX.
#include "transport/ucx.h"

namespace tessera::transport {

bool Ucx::is_built() { return false; }

Result<std::shared_ptr<Ucx>> Ucx::make(const std::shared_ptr<Loop>&) {
  return Error{ErrorCode::kUnsupported,
               "this build has no UCX; build it where libucx-dev is installed, or use tcp or shm"};
}

}  // namespace tessera::transport
