// Calls of the application's functions: what they throw becomes an error, because it would end the
// program on a thread of the library, and nothing is thrown across a library boundary.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <type_traits>

#include "tessera/result.h"

namespace tessera {

// kInvalidArgument: "the callback threw: what()". `text` is null for what is no std::exception.
Error threw(const char* what, const char* text);

// Calls `function`, which `what` names in the error; a Status that it returns is handed on.
template <typename Function>
Status call_application(const char* what, const Function& function) {
  try {
    if constexpr (std::is_same_v<std::invoke_result_t<const Function&>, Status>) {
      return function();
    } else {
      function();
      return {};
    }
  } catch (const std::exception& thrown) {
    return threw(what, thrown.what());
  } catch (...) {
    return threw(what, nullptr);
  }
}

// Tells how far something is. After the application's function has thrown it is called no more,
// until the exception was taken. May be used by several threads.
class ProgressReport {
 public:
  using Function = std::function<void(const std::string& stage, double fraction)>;
  explicit ProgressReport(Function function) : function_(std::move(function)) {}

  void report(const std::string& stage, double fraction);
  Status take_status();  // what it threw since this was asked last

 private:
  const Function function_;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status status_;
};

}  // namespace tessera
