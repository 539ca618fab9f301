// How far a long computation has come, and when it must end.
//
//   passes of a compilation ─► at(pass, done, all) ─► progress callback
//                                     └─► error past the deadline
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tessera {

// For one thread at a time.
class Watch {
 public:
  using Clock = std::chrono::steady_clock;
  using Progress = std::function<void(const std::string& stage, double fraction)>;

  // `progress` may be empty; the greatest time is no deadline.
  explicit Watch(Progress progress, Clock::time_point deadline = Clock::time_point::max())
      : progress_(std::move(progress)), deadline_(deadline) {}

  // The pass has done `done` of `all`, 0 to begin with. Progress is told at the begin of a pass and by
  // hundredths. kUnavailable past the deadline; the error names the pass and says how far it had come.
  Status at(std::string_view pass, std::int64_t done = 0, std::int64_t all = 0);

 private:
  const Progress progress_;
  const Clock::time_point deadline_;
  std::string pass_;        // the last one that was told
  std::int64_t told_ = -1;  // hundredths of it
};

// Of a computation that may have none to watch it.
inline Status watched(Watch* watch, std::string_view pass, std::int64_t done = 0,
                      std::int64_t all = 0) {
  return watch == nullptr ? Status() : watch->at(pass, done, all);
}

}  // namespace tessera
