// Programs written from Software, run as their users run them: a compiler or an interpreter,
// raw files in and out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "concord/software.h"

namespace tessera::concord::testing {

// A folder for one test, removed with the object.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_text(const std::string& path, const std::string& text);
void write_bytes(const std::string& path, const std::vector<std::byte>& bytes);
std::string read_text(const std::string& path);

// The exit status; what it printed goes to `log`.
int run_command(const std::string& command, const std::string& log);

// `command` + input files + output files.
std::vector<Tensor> run_files(const Software& software, const std::string& command,
                              const std::vector<Tensor>& inputs, const Folder& folder);

// The command that runs it; fails the test where it cannot be built.
std::string build_cpp(const Software& software, const Folder& folder);
// The same without optimisation, which compiles in less time.
std::string build_cpp_plainly(const Software& software, const Folder& folder);
std::string build_pytorch(const Software& software, const Folder& folder);

// A Python with the module, or nothing.
std::optional<std::string> find_python(const std::string& module);

// Several programs side by side, so that one compiler run serves all.
Software all_of(const std::vector<Software>& programs);

}  // namespace tessera::concord::testing
