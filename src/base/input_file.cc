#include "base/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/guarded.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int kFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr std::size_t kPieceBytes = 1 << 16;

Error wrong(const std::string& reason) { return {ErrorCode::kInvalidArgument, reason}; }
Error from_system(int error) { return wrong(std::strerror(error)); }

const char* kind_name(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISREG(mode) ? "a regular file" : "a device";
}

Error not_regular(mode_t mode) {
  return wrong(fmt::format("it is {}, allowed is a regular file", kind_name(mode)));
}

Error too_large(std::int64_t bytes_max) {
  return wrong(fmt::format("it has more than {} bytes, allowed are {}", bytes_max, bytes_max));
}

Status check_name(const std::string& name, const std::string& whose) {
  const fs::path path(name);
  if (name.empty()) return wrong("the name is empty");
  if (name.find('\0') != std::string::npos) return wrong("the name holds a zero byte");
  if (path.is_absolute()) {
    return wrong(fmt::format("it is an absolute path, allowed is one inside {}", whose));
  }
  if (std::ranges::find(path, fs::path("..")) != path.end()) {
    return wrong(fmt::format("it contains '..', allowed is a path inside {}", whose));
  }
  return {};
}

Error leaves(const std::string& whose) {
  return wrong(fmt::format("it is a link that leaves {}", whose));
}

// By the path without links; for kernels that have no openat2().
Result<Descriptor> open_resolved(const std::string& folder, const std::string& name,
                                 const std::string& whose) {
  std::error_code error;
  const fs::path root = fs::canonical(folder, error);
  if (error) return wrong(error.message());
  const fs::path target = fs::canonical(root / name, error);
  if (error) return wrong(error.message());
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  if (end != root.end()) return leaves(whose);
  // O_NOFOLLOW keeps it so if the folder changes meanwhile.
  Descriptor file(::open(target.c_str(), kFlags | O_NOFOLLOW));
  if (!file.valid()) return from_system(errno);
  return file;
}

}  // namespace

InputFile::InputFile(Descriptor file, const struct stat& status, std::int64_t bytes_max)
    : file_(std::move(file)),
      size_(S_ISREG(status.st_mode) ? status.st_size : -1),
      bytes_max_(bytes_max),
      modified_(status.st_mtim) {}

Result<InputFile> InputFile::check(Descriptor file, const InputOptions& options) {
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return from_system(errno);
  if (!S_ISREG(status.st_mode)) return not_regular(status.st_mode);
  if (status.st_size > options.bytes_max) {
    return wrong(fmt::format("it has {} bytes, allowed are {}", status.st_size, options.bytes_max));
  }
  return InputFile(std::move(file), status, options.bytes_max);
}

Result<InputFile> InputFile::open(const std::string& path, const InputOptions& options) {
  if (path.find('\0') != std::string::npos) return wrong("the name holds a zero byte");
  struct stat status = {};
  // Asked first: some devices do something when they are opened, and a socket cannot be.
  if (::stat(path.c_str(), &status) != 0) return from_system(errno);
  if (!S_ISREG(status.st_mode)) {
    const int own = options.descriptors ? follow_links(path).descriptor : -1;
    if (own < 0 || S_ISDIR(status.st_mode)) return not_regular(status.st_mode);
    Descriptor file(::fcntl(own, F_DUPFD_CLOEXEC, 0));
    if (!file.valid()) return from_system(errno);
    return InputFile(std::move(file), status, options.bytes_max);
  }
  Descriptor file(::open(path.c_str(), kFlags));
  if (!file.valid()) return from_system(errno);
  return check(std::move(file), options);
}

Result<InputFile> InputFile::open_below(const std::string& folder, const std::string& name,
                                        const std::string& whose, const InputOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_name(name, whose));
  const std::string start = folder.empty() ? "." : folder;
  const Descriptor root(::open(start.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return from_system(errno);
  open_how how = {};
  how.flags = kFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  Descriptor file(
      static_cast<int>(::syscall(SYS_openat2, root.get(), name.c_str(), &how, sizeof how)));
  if (file.valid()) return check(std::move(file), options);
  if (errno == EXDEV || errno == ELOOP) return leaves(whose);
  if (errno == ENXIO) return not_regular(S_IFSOCK);
  if (errno != ENOSYS && errno != EPERM) return from_system(errno);
  TESSERA_TRY(file, open_resolved(start, name, whose));
  return check(std::move(file), options);
}

Result<std::size_t> InputFile::read_some(std::span<std::byte> to) {
  while (true) {
    const ssize_t got = ::read(file_.get(), to.data(), to.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) {  // a descriptor that another process made non-blocking
      pollfd readable = {.fd = file_.get(), .events = POLLIN, .revents = 0};
      (void)::poll(&readable, 1, -1);
      continue;
    }
    if (got < 0) return from_system(errno);
    at_ += got;
    if (at_ > bytes_max_) return too_large(bytes_max_);
    return static_cast<std::size_t>(got);
  }
}

Status InputFile::read_at(std::int64_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.get(), to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return from_system(errno);
    if (got == 0) return wrong("it became shorter while it was read");
    offset += got;
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Status InputFile::check_unchanged() const {
  struct stat now = {};
  if (!regular()) return {};
  if (::fstat(file_.get(), &now) != 0) return from_system(errno);
  if (now.st_size != size_ || now.st_mtim.tv_sec != modified_.tv_sec ||
      now.st_mtim.tv_nsec != modified_.tv_nsec) {
    return wrong("it changed while it was read; read it again when its writer is done");
  }
  return {};
}

Result<std::vector<std::byte>> InputFile::read_rest() {
  std::vector<std::byte> bytes(regular() ? static_cast<std::size_t>(size_ - at_) : kPieceBytes);
  std::size_t have = 0;
  while (true) {
    // One byte more than a regular file has: a file that grows is seen to.
    std::byte more{};
    const bool full = have == bytes.size();
    TESSERA_TRY(const std::size_t got,
                read_some(full ? std::span(&more, 1) : std::span(bytes).subspan(have)));
    if (got == 0) break;
    if (full) {
      if (regular()) return wrong("it became longer while it was read");
      bytes.push_back(more);
      bytes.resize(bytes.size() * 2);
      ++have;
    } else {
      have += got;
    }
  }
  if (regular() && have < bytes.size()) return wrong("it became shorter while it was read");
  bytes.resize(have);
  TESSERA_RETURN_IF_ERROR(check_unchanged());
  return bytes;
}

Result<std::vector<std::byte>> read_input(const std::string& path, const InputOptions& options) {
  TESSERA_TRY(InputFile file, InputFile::open(path, options));
  return file.read_rest();
}

Result<std::vector<std::byte>> read_file(const std::string& path, const InputOptions& options) {
  return guarded("reading a file", [&]() -> Result<std::vector<std::byte>> {
    auto bytes = read_input(path, options);
    if (!bytes.ok()) return bytes.error().with_context(fmt::format("reading '{}'", path));
    return bytes;
  });
}

Result<std::string> read_text_file(const std::string& path, const InputOptions& options) {
  return guarded("reading a file", [&]() -> Result<std::string> {
    TESSERA_TRY(const std::vector<std::byte> bytes, read_file(path, options));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

}  // namespace tessera
