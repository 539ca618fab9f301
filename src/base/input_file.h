// Every file that comes from outside is opened here: regular files alone, none larger than its kind
// may be, and none that changes while it is read. Opening never waits, not even for a named pipe.
//
// The errors are reasons without the file's name ("it is a folder, ..."); the caller names
// it. read_file() and its siblings (tessera/file.h) name it.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_place.h"
#include "base/result.h"
#include "tessera/file.h"

namespace tessera {

class InputFile {
 public:
  static Result<InputFile> open(const std::string& path, const InputOptions& options = {});
  // A file that another file names: `name` must lie below `folder`, also by the links on its way.
  // `whose` says in the errors which folder that is: "the model's folder".
  static Result<InputFile> open_below(const std::string& folder, const std::string& name,
                                      const std::string& whose, const InputOptions& options = {});

  // When it was opened; -1 for a pipe.
  std::int64_t size() const { return size_; }
  int descriptor() const { return file_.get(); }
  // The next bytes; 0 at the end. More in all than bytes_max is an error.
  Result<std::size_t> read_some(std::span<std::byte> to);
  // All of `to`, from `offset` of a regular file.
  Status read_at(std::int64_t offset, std::span<std::byte> to) const;
  // Whether a regular file is still what it was when it was opened.
  Status check_unchanged() const;
  // From here to the end, and check_unchanged().
  Result<std::vector<std::byte>> read_rest();

 private:
  InputFile(Descriptor file, const struct stat& status, std::int64_t bytes_max);
  static Result<InputFile> check(Descriptor file, const InputOptions& options);
  bool regular() const { return size_ >= 0; }

  Descriptor file_;
  std::int64_t size_ = -1, bytes_max_ = 0, at_ = 0;
  timespec modified_ = {};
};

// read_file() with a reason alone for an error, for callers that have words of their own.
Result<std::vector<std::byte>> read_input(const std::string& path, const InputOptions& options);

}  // namespace tessera
