// Another program beside this one, whose standard input stays open until it is to end.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

// For one thread at a time.
class BackgroundChild {
 public:
  enum class Output { kRead, kDropped, kOurs };  // by read_line(); by nobody; to our standard error

  // words[0] is looked for in PATH; standard error is this program's. It gets SIGTERM when the thread that
  // started it ends. kUnavailable: it cannot be started.
  static Result<std::unique_ptr<BackgroundChild>> start(const std::vector<std::string>& words,
                                                        Output output);
  // Calls `work` in a child, which ends with the call; what it writes to the file descriptor is read by
  // read_line(). Only while this process has no other threads. `name` is for errors.
  static Result<std::unique_ptr<BackgroundChild>> start_function(
      const std::string& name, const std::function<void(int output)>& work);
  ~BackgroundChild();  // ends it
  BackgroundChild(const BackgroundChild&) = delete;
  BackgroundChild& operator=(const BackgroundChild&) = delete;

  // The next line that it prints, without its end. kUnavailable: it has ended, or `time` is over.
  Result<std::string> read_line(std::chrono::milliseconds time);
  bool has_ended();
  pid_t process() const { return process_; }
  int status() const { return status_; }  // once it has ended; 128 + the signal where one ended it
  // Ends its standard input and waits; where it stays longer than `time` it gets SIGTERM, then SIGKILL.
  void end(std::chrono::milliseconds time);

 private:
  BackgroundChild(std::string name, pid_t process, int input, int output)
      : name_(std::move(name)), process_(process), input_(input), output_(output) {}
  static Result<std::unique_ptr<BackgroundChild>> fork_off(
      const std::string& name, Output output,
      const std::function<void(int input, int output)>& in_child);
  bool wait_for_end(std::chrono::milliseconds time);

  const std::string name_;
  const pid_t process_;
  int input_, output_, status_ = -1;
  bool ended_ = false;
  std::string read_;
};

}  // namespace tessera::tools
