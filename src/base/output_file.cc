#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "base/guarded.h"

namespace tessera {
namespace {

constexpr int kAttempts = 100;
constexpr std::size_t kWriteBytesMax = std::size_t{1} << 30;

// While this lives, a write to a pipe without a reader and a write beyond the limit of a file's
// size raise no signal in this thread; errno has the error.
class SignalsHeldBack {
 public:
  SignalsHeldBack() {
    sigset_t pending;
    sigemptyset(&ours_);
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  }
  ~SignalsHeldBack() {
    const timespec now = {};
    while (sigtimedwait(&ours_, nullptr, &now) > 0) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsHeldBack(const SignalsHeldBack&) = delete;
  SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

 private:
  sigset_t ours_, before_;
};

// 0, or an errno.
int write_all(int file, std::span<const std::byte> bytes) {
  const SignalsHeldBack held;
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), std::min(bytes.size(), kWriteBytesMax));
    if (put > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(put));
    } else if (put == 0) {
      return ENOSPC;
    } else if (errno == EAGAIN) {  // a descriptor that another process made non-blocking
      pollfd writable = {.fd = file, .events = POLLOUT, .revents = 0};
      (void)::poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

int synchronise(int file) {
  while (::fsync(file) != 0) {
    // Not every file system and every kind of file has something to synchronise.
    if (errno == EINVAL || errno == EROFS) return 0;
    if (errno != EINTR) return errno;
  }
  return 0;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) == sizeof number) return number;
  timespec now = {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_nsec) * 0x9E3779B97F4A7C15u ^
         static_cast<std::uint64_t>(::getpid());
}

}  // namespace

Error OutputFile::failed(int error) const {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG || error == EIO ||
                    error == EPIPE || error == EMFILE || error == ENFILE;
  return {full ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument,
          fmt::format("writing '{}': {}", path_, std::strerror(error))};
}

Result<OutputFile> OutputFile::create(const std::string& path, const OutputOptions& options) {
  OutputFile file(path, options);
  if (path.find('\0') != std::string::npos) return file.failed(EINVAL);
  const FilePlace place = follow_links(path);
  if (place.error != 0) return file.failed(place.error);
  TESSERA_RETURN_IF_ERROR(file.open_target(place));
  return file;
}

Status OutputFile::open_target(const FilePlace& place) {
  if (place.descriptor >= 0) {
    direct_ = true;
    file_ = Descriptor(::fcntl(place.descriptor, F_DUPFD_CLOEXEC, 0));
    return file_.valid() ? Status() : failed(errno);
  }
  const std::filesystem::path folder = place.path.parent_path();
  const char* const folder_name = folder.empty() ? "." : folder.c_str();
  name_ = place.path.filename().string();
  if (path_.empty()) return failed(ENOENT);
  Descriptor opened(::open(folder_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.valid() && errno == EACCES) {  // one that may be written to and not be listed
    opened = Descriptor(::open(folder_name, O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  if (!opened.valid()) return failed(errno);
  folder_ = std::make_shared<const Descriptor>(std::move(opened));
  if (name_.empty()) return failed(EISDIR);
  struct stat status = {};
  const bool there = ::fstatat(folder_->get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  if (!there && errno != ENOENT) return failed(errno);
  if (!there) return make_temporary(nullptr);
  if (S_ISDIR(status.st_mode)) return failed(EISDIR);
  if (S_ISREG(status.st_mode)) return make_temporary(&status);
  direct_ = true;
  file_ = Descriptor(::openat(folder_->get(), name_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
  if (!file_.valid() || ::fstat(file_.get(), &status) != 0) return failed(errno);
  if (!S_ISREG(status.st_mode)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("writing '{}': it is a file that another process has open; give its name",
                  path_)};
}

// With the mode and owner of the file that it replaces, where there is one.
Status OutputFile::make_temporary(const struct stat* replaced) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const mode_t mode = replaced == nullptr ? 0666 : replaced->st_mode & 0777;
  for (int attempt = 0; attempt < kAttempts && !file_.valid(); ++attempt) {
    temporary_ = fmt::format(".tessera-{:016x}.partial", random_number());
    file_ = Descriptor(::openat(folder_->get(), temporary_.c_str(), kFlags, mode));
    if (!file_.valid() && errno != EEXIST) break;
  }
  if (!file_.valid()) {
    const int error = errno;
    temporary_.clear();
    return failed(error);
  }
  struct stat status = {};
  if (::fstat(file_.get(), &status) != 0) return failed(errno);
  inode_ = status.st_ino;
  if (replaced == nullptr) return {};
  const bool same_owner = status.st_uid == replaced->st_uid && status.st_gid == replaced->st_gid;
  if (!same_owner) (void)!::fchown(file_.get(), replaced->st_uid, replaced->st_gid);
  // The umask may have taken away what the old file had.
  return ::fchmod(file_.get(), mode) == 0 ? Status() : failed(errno);
}

OutputFile::~OutputFile() { remove_temporary(); }

void OutputFile::remove_temporary() {
  // An object that was moved from has no folder.
  if (!temporary_.empty() && folder_ != nullptr)
    (void)::unlinkat(folder_->get(), temporary_.c_str(), 0);
  temporary_.clear();
}

Status OutputFile::write(std::span<const std::byte> bytes) {
  const int error = write_all(file_.get(), bytes);
  return error == 0 ? Status() : failed(error);
}

Status OutputFile::write(std::string_view text) { return write(std::as_bytes(std::span(text))); }

Status OutputFile::finish() {
  if (!file_.valid()) return {};
  int error = direct_ || !options_.synchronised ? 0 : synchronise(file_.get());
  const int closing = file_.close();
  if (error == 0) error = closing;
  return error == 0 ? Status() : failed(error);
}

// By an exchange, so that take_back() can undo it.
Status OutputFile::put_in_place() {
  if (temporary_.empty()) return {};
  const int folder = folder_->get();
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_EXCHANGE) == 0) {
      exchanged_ = true;
      struct stat replaced = {};
      const int found = ::fstatat(folder, temporary_.c_str(), &replaced, AT_SYMLINK_NOFOLLOW);
      if (found != 0 || !S_ISDIR(replaced.st_mode)) return {};
      take_back();  // a folder that came in between
      return failed(EISDIR);
    }
    if (errno != ENOENT) break;
    if (::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_NOREPLACE) == 0) {
      made_ = true;
      temporary_.clear();
      return {};
    }
    if (errno != EEXIST) break;  // another process made it in between: once more
  }
  // A file system that has no exchange; what is replaced does not come back.
  const bool foreign = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
  if (!foreign || ::renameat(folder, temporary_.c_str(), folder, name_.c_str()) != 0) {
    return failed(errno);
  }
  temporary_.clear();
  return {};
}

void OutputFile::take_back() {
  struct stat status = {};
  const int folder = folder_->get();
  if (!exchanged_ && !made_) return;
  // What another writer has put there since then is that one's.
  const bool ours = ::fstatat(folder, name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                    status.st_ino == inode_;
  if (ours && exchanged_) {
    (void)::renameat2(folder, temporary_.c_str(), folder, name_.c_str(), RENAME_EXCHANGE);
  }
  if (ours && made_) (void)::unlinkat(folder, name_.c_str(), 0);
  exchanged_ = made_ = false;
}

Status OutputFile::synchronise_folder() const {
  if (direct_ || !options_.synchronised) return {};
  const int error = synchronise(folder_->get());
  return error == 0 || error == EBADF ? Status() : failed(error);  // EBADF: it cannot be listed
}

Status OutputFile::commit() { return commit_all({this, 1}); }

Status OutputFile::commit_all(std::span<OutputFile> files) {
  Status status;
  for (OutputFile& file : files) {
    if (status.ok()) status = file.finish();
  }
  for (OutputFile& file : files) {
    if (status.ok()) status = file.put_in_place();
  }
  const Descriptor* synchronised = nullptr;
  for (OutputFile& file : files) {
    if (!status.ok() || file.folder_.get() == synchronised) continue;
    status = file.synchronise_folder();
    synchronised = file.folder_.get();
  }
  for (std::size_t i = files.size(); !status.ok() && i > 0; --i) files[i - 1].take_back();
  for (OutputFile& file : files) file.remove_temporary();
  return status;
}

Status OutputFile::publish() {
  if (temporary_.empty()) return {};
  if (::renameat(folder_->get(), temporary_.c_str(), folder_->get(), name_.c_str()) != 0) {
    return failed(errno);
  }
  temporary_.clear();
  return {};
}

Status OutputFiles::add(const std::string& path, std::span<const std::byte> bytes) {
  TESSERA_TRY(OutputFile file, OutputFile::create(path));
  TESSERA_RETURN_IF_ERROR(file.write(bytes));
  TESSERA_RETURN_IF_ERROR(file.finish());
  const bool shared =
      !files_.empty() && file.folder_ != nullptr && files_.back().folder_ != nullptr &&
      file_identity(file.folder_->get()) == file_identity(files_.back().folder_->get());
  if (shared) file.folder_ = files_.back().folder_;
  files_.push_back(std::move(file));
  return {};
}

Status OutputFiles::add(const std::string& path, std::string_view text) {
  return add(path, std::as_bytes(std::span(text)));
}

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  return guarded("writing a file", [&]() -> Status {
    TESSERA_TRY(OutputFile file, OutputFile::create(path));
    TESSERA_RETURN_IF_ERROR(file.write(bytes));
    return file.commit();
  });
}

Status write_text_file(const std::string& path, const std::string& text) {
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace tessera
