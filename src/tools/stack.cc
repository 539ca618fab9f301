#include "tools/stack.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>

namespace tessera::tools {
namespace {

constexpr rlim_t kLeast = rlim_t{256} << 10;  // what the deepest verb takes, twice over
constexpr rlim_t kUsual = rlim_t{8} << 20;

}  // namespace

Status make_room_on_the_stack() {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kUsual) return {};
  const rlim_t bytes = std::min(limit.rlim_max, kUsual);
  if (bytes < kLeast) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the stack may have {} bytes (ulimit -Hs), at least {} are needed",
                             limit.rlim_max, kLeast)};
  }
  limit.rlim_cur = bytes;
  pthread_attr_t threads;
  // Threads take what the limit was when the program began.
  const bool done = ::setrlimit(RLIMIT_STACK, &limit) == 0 &&
                    ::pthread_getattr_default_np(&threads) == 0 &&
                    ::pthread_attr_setstacksize(&threads, bytes) == 0 &&
                    ::pthread_setattr_default_np(&threads) == 0;
  if (done) return {};
  return Error{ErrorCode::kUnavailable, "the stack cannot be made larger; raise `ulimit -s`"};
}

}  // namespace tessera::tools
