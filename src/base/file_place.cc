#include "base/file_place.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kLinksMax = 40;  // as the kernel follows

bool in_proc(const fs::path& folder) {
  struct statfs system = {};
  return ::statfs(folder.c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC;
}

// The number where `link` is one of /proc/self/fd; what such a link says is no path.
int own_descriptor(const fs::path& link) {
  std::error_code error;
  const fs::path folder = fs::canonical(link.parent_path(), error);
  const std::string process = "/proc/" + std::to_string(::getpid());
  const bool own = folder == process + "/fd" ||
                   (folder.string().starts_with(process + "/task/") && folder.filename() == "fd");
  if (error || !own) return -1;
  const std::string name = link.filename().string();
  int number = -1;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), number);
  return failed == std::errc{} && end == name.data() + name.size() ? number : -1;
}

std::optional<FileIdentity> identity_of(const struct stat& status) {
  if (S_ISCHR(status.st_mode)) return std::nullopt;
  return FileIdentity{status.st_dev, status.st_ino, ""};
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(number_, other.number_);
  return *this;
}
Descriptor::~Descriptor() { (void)close(); }

int Descriptor::close() {
  const int number = std::exchange(number_, -1);
  // After EINTR the descriptor is closed on Linux.
  return number < 0 || ::close(number) == 0 || errno == EINTR ? 0 : errno;
}

FilePlace follow_links(const std::string& path) {
  FilePlace place{.path = path};
  for (int links = 0;; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(place.path, error))) return place;
    if (links == kLinksMax) {
      place.error = ELOOP;
      return place;
    }
    if (in_proc(place.path.parent_path())) {
      place.descriptor = own_descriptor(place.path);
      return place;  // another process's descriptor is opened through its link
    }
    const fs::path next = fs::read_symlink(place.path, error);
    if (error) {
      place.error = error.value();
      return place;
    }
    place.path = next.is_absolute() ? next : place.path.parent_path() / next;
  }
}

std::optional<FileIdentity> file_identity(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) == 0) return identity_of(status);
  const fs::path target = follow_links(path).path;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (::stat(folder.c_str(), &status) == 0) {
    return FileIdentity{status.st_dev, status.st_ino, target.filename().string()};
  }
  std::error_code error;
  return FileIdentity{0, 0, fs::weakly_canonical(fs::absolute(target, error), error).string()};
}

std::optional<FileIdentity> file_identity(int descriptor) {
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) return std::nullopt;
  return identity_of(status);
}

}  // namespace tessera
