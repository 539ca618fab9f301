#include "base/watch.h"

#include <fmt/format.h>

namespace tessera {

Status Watch::at(std::string_view pass, std::int64_t done, std::int64_t all) {
  if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) {
    const std::string come =
        all > 0 ? fmt::format("after {} of {} steps", done, all) : "at its begin";
    return Error{
        ErrorCode::kUnavailable,
        fmt::format("the deadline passed in the pass '{}', {}; give it more time", pass, come)};
  }
  if (!progress_) return {};
  const std::int64_t hundredths = all > 0 ? 100 * done / all : 0;
  if (pass_ == pass && hundredths == told_) return {};
  pass_ = pass;
  told_ = hundredths;
  progress_(pass_, static_cast<double>(hundredths) / 100);
  return {};
}

}  // namespace tessera
