// Loaded in front of the C library (LD_PRELOAD), for tests: makes the n-th call that changes a file
// fail, or every call from the n-th on, or the n-th write a short one.
//
//   TESSERA_FAIL_FOLDER   only calls on files in or below this folder count
//   TESSERA_FAIL_AT       n, from 1
//   TESSERA_FAIL_HOW      once, on (from n on), short, or interrupt (SIGINT before the call)
//   TESSERA_FAIL_ERROR    the errno
//   TESSERA_FAIL_TOLD     a file that gets a byte for each call that was made to fail
//
// Standard input, output and error do not count: the test sends them into files of its own.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

std::atomic<int> calls = 0;

enum class Verdict { kDo, kFail, kShort };

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void tell() {
  const long file = syscall(SYS_openat, AT_FDCWD, setting("TESSERA_FAIL_TOLD"),
                            O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0) return;
  (void)!syscall(SYS_write, file, "x", 1);
  syscall(SYS_close, file);
}

// Of the next call on a file that counts.
Verdict next_call(bool write) {
  const int at = std::atoi(setting("TESSERA_FAIL_AT"));
  const std::string_view how = setting("TESSERA_FAIL_HOW");
  if (at == 0 || (how == "short" && !write)) return Verdict::kDo;
  const int number = ++calls;
  if (number < at || (number > at && how != "on")) return Verdict::kDo;
  tell();
  if (how == "interrupt") {
    std::raise(SIGINT);
    return Verdict::kDo;
  }
  return how == "short" ? Verdict::kShort : Verdict::kFail;
}

bool in_folder(const char* path) {
  const std::string_view folder = setting("TESSERA_FAIL_FOLDER");
  return !folder.empty() && std::strncmp(path, folder.data(), folder.size()) == 0;
}

bool counts(int file) {
  if (file >= 0 && file <= STDERR_FILENO) return false;
  char link[64], path[PATH_MAX];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  const long length = syscall(SYS_readlink, link, path, sizeof path - 1);
  if (length <= 0) return false;
  path[length] = '\0';
  return in_folder(path);
}

bool counts_at(int folder, const char* name) {
  char path[PATH_MAX];
  if (name[0] == '/') return in_folder(name);
  if (folder != AT_FDCWD) return counts(folder);
  return getcwd(path, sizeof path) != nullptr && in_folder(path);
}

bool fails(bool counted) {
  if (!counted || next_call(false) == Verdict::kDo) return false;
  errno = std::atoi(setting("TESSERA_FAIL_ERROR"));
  return true;
}

template <typename Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

int open_at(const char* function, int folder, const char* name, int flags, mode_t mode) {
  const bool changes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
  if (fails(changes && counts_at(folder, name))) return -1;
  return next_of<int(int, const char*, int, mode_t)>(function)(folder, name, flags, mode);
}

mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(list, unsigned)) : 0;
}

}  // namespace

extern "C" {

int openat(int folder, const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at("openat", folder, name, flags, mode);
}

int openat64(int folder, const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at("openat64", folder, name, flags, mode);
}

int open(const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at("openat", AT_FDCWD, name, flags, mode);
}

int open64(const char* name, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at("openat64", AT_FDCWD, name, flags, mode);
}

ssize_t write(int file, const void* bytes, size_t size) {
  const auto real = next_of<ssize_t(int, const void*, size_t)>("write");
  switch (counts(file) ? next_call(true) : Verdict::kDo) {
    case Verdict::kFail:
      errno = std::atoi(setting("TESSERA_FAIL_ERROR"));
      return -1;
    case Verdict::kShort:
      return real(file, bytes, (size + 1) / 2);
    case Verdict::kDo:
      break;
  }
  return real(file, bytes, size);
}

ssize_t writev(int file, const iovec* pieces, int count) {
  if (fails(counts(file))) return -1;
  return next_of<ssize_t(int, const iovec*, int)>("writev")(file, pieces, count);
}

int fsync(int file) { return fails(counts(file)) ? -1 : next_of<int(int)>("fsync")(file); }
int fdatasync(int file) { return fails(counts(file)) ? -1 : next_of<int(int)>("fdatasync")(file); }

int ftruncate(int file, off_t size) {
  return fails(counts(file)) ? -1 : next_of<int(int, off_t)>("ftruncate")(file, size);
}

int fchmod(int file, mode_t mode) {
  return fails(counts(file)) ? -1 : next_of<int(int, mode_t)>("fchmod")(file, mode);
}

// The descriptor is closed all the same, as the system does it.
int close(int file) {
  const bool writable = (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
  const bool failing = fails(writable && counts(file));
  const int error = errno;
  const int closed = next_of<int(int)>("close")(file);
  if (!failing) return closed;
  errno = error;
  return -1;
}

int rename(const char* from, const char* to) {
  if (fails(counts_at(AT_FDCWD, to))) return -1;
  return next_of<int(const char*, const char*)>("rename")(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  if (fails(counts_at(to_folder, to))) return -1;
  return next_of<int(int, const char*, int, const char*)>("renameat")(from_folder, from, to_folder,
                                                                      to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) {
  if (fails(counts_at(to_folder, to))) return -1;
  return next_of<int(int, const char*, int, const char*, unsigned int)>("renameat2")(
      from_folder, from, to_folder, to, flags);
}

}  // extern "C"
