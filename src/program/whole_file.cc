// Whole files, read and written at once. A regular file is replaced by renaming a finished one over
// it, so that nobody ever sees half of it; a device or a pipe is written to as it is.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#include "program/container.h"

namespace tessera::program {
namespace {

namespace fs = std::filesystem;

Error writing_failed(const std::string& path, const std::string& reason) {
  return {ErrorCode::kInvalidArgument, fmt::format("writing '{}': {}", path, reason)};
}

// Writes to what is there, or makes a new file. An errno, 0 if all went well.
int write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  errno = 0;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return errno;
  int failed = 0;
  if (std::fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size()) failed = errno;
  if (std::fclose(file) != 0 && failed == 0) failed = errno;
  return failed;
}

}  // namespace

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  std::error_code error;
  fs::path target = path;
  // A link stays; the file it leads to, which need not exist yet, is replaced.
  constexpr int kLinksMax = 40;
  for (int links = 0; fs::is_symlink(fs::symlink_status(target, error)); ++links) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) return writing_failed(path, error.message());
    if (links == kLinksMax) return writing_failed(path, std::strerror(ELOOP));
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  const fs::file_status status = fs::symlink_status(target, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    const int failed = write_bytes(target.string(), bytes);
    if (failed != 0) return writing_failed(path, std::strerror(failed));
    return {};
  }
  const std::string temporary = target.string() + ".partial";
  int failed = write_bytes(temporary, bytes);
  if (failed == 0 && std::rename(temporary.c_str(), target.c_str()) != 0) failed = errno;
  if (failed != 0) {
    std::remove(temporary.c_str());
    return writing_failed(path, std::strerror(failed));
  }
  return {};
}

Result<std::vector<std::byte>> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = in ? static_cast<std::streamoff>(in.tellg()) : -1;
  if (size < 0 || size == std::numeric_limits<std::streamoff>::max()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("reading '{}': {}", path, std::strerror(errno ? errno : EISDIR))};
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(size));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(bytes.data()), size);
  if (!in) return Error{ErrorCode::kInvalidArgument, fmt::format("reading '{}' failed", path)};
  return bytes;
}

}  // namespace tessera::program
