// Another program, run to its end.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

struct ChildResult {
  int status = 0;       // 128 + the signal where one ended it
  std::string printed;  // the last lines of standard output and standard error together
};

// words[0] is looked for in PATH; what it prints goes to the file `log`. An error where it cannot
// be started.
Result<ChildResult> run_child(const std::vector<std::string>& words, const std::string& log);

// A folder of its own for files between two programs, removed with the object.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make();
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tessera::tools
