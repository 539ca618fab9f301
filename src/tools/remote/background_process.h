// Processes beside this one, for measurements between processes: this program with other arguments, or a function in a
// process of its own. Each says when it has begun. They end with the object, and with this process.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/background_child.h"

namespace tessera::tools {

class BackgroundProcess {
 public:
  // `tessera WORDS... --json`. The error says what it printed instead of its event `start`.
  static Result<std::unique_ptr<BackgroundProcess>> start_tessera(std::vector<std::string> words);
  // Calls `work` in a child, which writes its event as one line of JSON to the file that it is given and ends with the
  // call. Only while this process has no other threads.
  static Result<std::unique_ptr<BackgroundProcess>> start_function(
      const std::function<void(std::FILE* events)>& work);

  const nlohmann::json& start_event() const { return start_; }
  // Of all its threads so far, in seconds.
  double processor_seconds() const;

 private:
  explicit BackgroundProcess(std::unique_ptr<BackgroundChild> child) : child_(std::move(child)) {}
  static Result<std::unique_ptr<BackgroundProcess>> started(std::unique_ptr<BackgroundChild> child);

  const std::unique_ptr<BackgroundChild> child_;
  nlohmann::json start_;
};

}  // namespace tessera::tools
