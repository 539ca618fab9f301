// Files read and written as a whole, as the library itself does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/result.h"

namespace tessera {

// What may be read.
struct InputOptions {
  std::int64_t bytes_max = std::int64_t{16} << 30;  // a larger file is refused unread
  // Takes also a pipe or a device that this process already has as a descriptor (/dev/stdin,
  // /dev/fd/N), to its end or to bytes_max.
  bool descriptors = false;
};

// All bytes of a regular file. Folders, pipes, devices and sockets are refused, and so is a file
// that changes while it is read. Follows links.
Result<std::vector<std::byte>> read_file(const std::string& path, const InputOptions& options = {});
// The same as a text, whatever its bytes are.
Result<std::string> read_text_file(const std::string& path, const InputOptions& options = {});

// What is at `path` is replaced by these bytes as a whole, or, with an error, stays as it was: a
// new file beside it is written, synchronised and renamed. The file keeps its mode; a link stays
// and what it leads to is replaced; other hard links keep the old contents. A pipe or a device, and
// a descriptor of this process (/dev/stdout), is written to as it is.
Status write_file(const std::string& path, std::span<const std::byte> bytes);
// The same of a text.
Status write_text_file(const std::string& path, const std::string& text);

}  // namespace tessera
