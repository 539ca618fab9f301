// Which files a verb reads and which it writes: none may be both, and none be written twice,
// whatever they are called (another spelling, a link, a hard link). Looked at before anything is
// done.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::tools {

class FileRoles {
 public:
  // `role` as the error calls it: "the model", "--out". An empty path, and one that is no file's
  // ("-" is standard input or output), does no harm.
  void read(const std::string& role, const std::string& path);
  void write(const std::string& role, const std::string& path);
  // "--arch" where it is a file's name, with or without a format behind it.
  void read_architecture(const std::string& name);
  // "--input": NAME=FILE or FILE; any part behind a "=" may be the file.
  void read_inputs(const std::vector<std::string>& texts);

  // The error names both. Standard output counts as written, where it is a regular file.
  Status check() const;

 private:
  struct Role {
    std::string role, path;
  };
  std::vector<Role> read_, written_;
};

// An output of several files needs a name in a folder, where the others lie beside it: a
// descriptor, a device or a pipe is an error.
Status check_has_place_beside(const std::string& path);

}  // namespace tessera::tools
