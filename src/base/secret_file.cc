#include "base/secret_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace tessera {

Status check_secret_file(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  constexpr mode_t kMode = 07777;
  const bool is_of_root = found.st_uid == 0;
  const mode_t of_group = is_of_root ? S_IWGRP : S_IRWXG;
  if ((found.st_mode & (of_group | S_IRWXO)) == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("'{}' has secrets and others may read or change it (mode {:04o}); chmod "
                           "600 it{}",
                           path, found.st_mode & kMode,
                           is_of_root ? ", or 640 for a group that it belongs to" : "")};
}

}  // namespace tessera
