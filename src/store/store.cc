#include "store/store.h"

#include <fmt/format.h>

namespace tessera::store {

Status check_lease_time(std::chrono::milliseconds ttl) {
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(24);
  if (ttl >= std::chrono::milliseconds(1) && ttl <= kLongest) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("store: a lease of {} ms, allowed are 1 to {}", ttl.count(), kLongest.count())};
}

Status check_watch_start(Revision from) {
  if (from >= 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("store: a watch from revision {}, allowed are 0 and more", from)};
}

}  // namespace tessera::store
