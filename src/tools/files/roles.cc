#include "tools/files/roles.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>

#include "base/file_place.h"

namespace tessera::tools {
namespace {

std::optional<FileIdentity> identity_of(const std::string& path, int standard) {
  return path == "-" ? file_identity(standard) : file_identity(path);
}

// Standard output where it was sent into a file.
std::optional<FileIdentity> standard_output() {
  struct stat status = {};
  const bool file = ::fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  return file ? file_identity(STDOUT_FILENO) : std::nullopt;
}

// /dev/stdout and its like share the descriptor: what is printed and what is written follow each
// other.
bool is_descriptor(const std::string& path) {
  return path == "-" || follow_links(path).descriptor >= 0;
}

Error same_file(const std::string& written, const std::string& other, const char* what) {
  return {
      ErrorCode::kInvalidArgument,
      fmt::format("{} is the same file as {}, which is {}; nothing was done, choose another name",
                  written, other, what)};
}

}  // namespace

void FileRoles::read(const std::string& role, const std::string& path) {
  if (!path.empty()) read_.push_back({role, path});
}

void FileRoles::write(const std::string& role, const std::string& path) {
  if (!path.empty()) written_.push_back({role, path});
}

void FileRoles::read_architecture(const std::string& name) {
  const std::size_t plus = name.ends_with(".toml") ? std::string::npos : name.rfind('+');
  const std::string file = name.substr(0, plus);
  if (file.find('/') != std::string::npos || file.ends_with(".toml")) read("--arch", file);
}

void FileRoles::read_inputs(const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    for (std::size_t at = 0; at != std::string::npos;) {
      read("--input", text.substr(at));
      at = text.find('=', at);
      if (at != std::string::npos) ++at;
    }
  }
}

Status FileRoles::check() const {
  const auto quoted = [](const Role& role) { return fmt::format("{} '{}'", role.role, role.path); };
  std::vector<std::optional<FileIdentity>> read, written;
  for (const Role& role : read_) read.push_back(identity_of(role.path, STDIN_FILENO));
  for (const Role& role : written_) written.push_back(identity_of(role.path, STDOUT_FILENO));
  const std::optional<FileIdentity> output = standard_output();
  for (std::size_t i = 0; i < read_.size(); ++i) {
    if (output && read[i] == output) {
      return same_file("standard output", quoted(read_[i]), "read");
    }
    for (std::size_t k = 0; k < written_.size(); ++k) {
      if (read[i] && read[i] == written[k]) {
        return same_file(quoted(written_[k]), quoted(read_[i]), "read");
      }
    }
  }
  for (std::size_t i = 0; i < written_.size(); ++i) {
    if (output && written[i] == output && !is_descriptor(written_[i].path)) {
      return same_file("standard output", quoted(written_[i]), "written, too");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (written[i] && written[i] == written[k]) {
        return same_file(quoted(written_[i]), quoted(written_[k]), "written, too");
      }
    }
  }
  return {};
}

Status check_has_place_beside(const std::string& path) {
  const FilePlace place = follow_links(path);
  std::error_code error;
  const auto status = std::filesystem::status(place.path, error);
  const bool other = place.descriptor >= 0 ||
                     (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status));
  if (!other || std::filesystem::is_directory(status)) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("writing '{}': the weights are a file of their own beside it; give a "
                           "file's name",
                           path)};
}

}  // namespace tessera::tools
