#include "base/application_call.h"

#include <utility>

#include "base/guarded.h"

namespace tessera {

Error threw(const char* what, const char* text) {
  return error_or_no_memory([&] {
    const std::string named = what;
    return Error{ErrorCode::kInvalidArgument,
                 text == nullptr ? named + " threw something that is no std::exception"
                                 : named + " threw: " + text};
  });
}

void ProgressReport::report(const std::string& stage, double fraction) {
  if (!function_ || failed_.load(std::memory_order_relaxed)) return;
  Status status = call_application("the progress callback", [&] { function_(stage, fraction); });
  if (status.ok()) return;
  const std::lock_guard lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  failed_.store(true, std::memory_order_relaxed);
}

Status ProgressReport::take_status() {
  const std::lock_guard lock(mutex_);
  failed_.store(false, std::memory_order_relaxed);
  return std::exchange(status_, {});
}

}  // namespace tessera
