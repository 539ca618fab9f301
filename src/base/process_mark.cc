#include "base/process_mark.h"

#include <pthread.h>

#include <atomic>
#include <string>

namespace tessera {
namespace {

// The one thing passed on to a child, which cannot otherwise detect that it is one without a
// system call each time.
std::atomic<std::uint64_t> forks{0};

void count_fork() { forks.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

ProcessMark::ProcessMark() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, &count_fork);
  forks_ = forks.load(std::memory_order_relaxed);
}

bool ProcessMark::here() const { return forks.load(std::memory_order_relaxed) == forks_; }

Status ProcessMark::check(const char* what) const {
  if (here()) return {};
  return Error{ErrorCode::kUnavailable, std::string("this process was forked after the ") + what +
                                            " was opened; open it again in the child"};
}

}  // namespace tessera
