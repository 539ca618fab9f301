#include "tools/run/vector_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tessera::tools {
namespace {

Error failed(const std::string& what, const std::string& reason) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", what, reason)};
}

// A file, or a pipe, which waits for its writer; or a descriptor that this process has.
Result<int> open_to_read(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return failed("'" + path + "'", std::strerror(errno));
  const int own = follow_links(path).descriptor;
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode) && own < 0) {
    const char* const kind = S_ISDIR(status.st_mode)    ? "a folder"
                             : S_ISSOCK(status.st_mode) ? "a socket, which is unix:PATH"
                                                        : "a device";
    return failed("'" + path + "'", fmt::format("it is {}; allowed are a file and a pipe", kind));
  }
  // A socket cannot be opened by a name.
  const int descriptor = own >= 0 ? ::fcntl(own, F_DUPFD_CLOEXEC, 0)
                                  : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return failed("'" + path + "'", std::strerror(errno));
  return descriptor;
}

// True: it was no error, and what was tried may be tried again. A descriptor that another process
// made non-blocking is waited for.
bool may_go_on(int descriptor, short events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd ready = {.fd = descriptor, .events = events, .revents = 0};
  (void)::poll(&ready, 1, -1);
  return true;
}

}  // namespace

Result<int> VectorStream::connect_local(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return failed("unix:" + path, "a socket's path has 1 to 107 characters");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return failed("unix:" + path, std::strerror(errno));
  if (::connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    const int reason = errno;
    ::close(descriptor);
    return failed("unix:" + path, std::strerror(reason));
  }
  return descriptor;
}

Result<int> VectorStream::connect_network(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) {
    return failed("tcp:" + address, "expected tcp:HOST:PORT");
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(address.substr(0, colon).c_str(),
                                   address.substr(colon + 1).c_str(), &hints, &found);
  if (status != 0) return failed("tcp:" + address, ::gai_strerror(status));
  int descriptor = -1;
  int reason = 0;
  for (const addrinfo* one = found; one != nullptr && descriptor < 0; one = one->ai_next) {
    descriptor = ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol);
    if (descriptor >= 0 && ::connect(descriptor, one->ai_addr, one->ai_addrlen) == 0) break;
    reason = errno;
    if (descriptor >= 0) ::close(descriptor);
    descriptor = -1;
  }
  ::freeaddrinfo(found);
  if (descriptor < 0) return failed("tcp:" + address, std::strerror(reason));
  return descriptor;
}

Result<std::shared_ptr<VectorStream>> VectorStream::open_one(const std::string& name, bool write) {
  int descriptor = -1;
  bool owned = true;
  if (name == "-") {
    descriptor = write ? STDOUT_FILENO : STDIN_FILENO;
    owned = false;
  } else if (name.starts_with("unix:")) {
    TESSERA_TRY(descriptor, connect_local(name.substr(5)));
  } else if (name.starts_with("tcp:")) {
    TESSERA_TRY(descriptor, connect_network(name.substr(4)));
  } else if (write) {
    TESSERA_TRY(OutputFile file, OutputFile::create(name));
    return std::shared_ptr<VectorStream>(new VectorStream(name, std::move(file)));
  } else {
    TESSERA_TRY(descriptor, open_to_read(name));
  }
  return std::shared_ptr<VectorStream>(new VectorStream(name, descriptor, owned));
}

Result<VectorStream::Ends> VectorStream::open(const std::string& in, const std::string& out) {
  Ends ends;
  TESSERA_TRY(ends.in, open_one(in, false));
  const bool socket = in.starts_with("unix:") || in.starts_with("tcp:");
  if (socket && in == out) {
    ends.out = ends.in;
    return ends;
  }
  TESSERA_TRY(ends.out, open_one(out, true));
  return ends;
}

VectorStream::~VectorStream() {
  if (owned_) ::close(descriptor_);
}

Result<bool> VectorStream::read(std::span<std::byte> bytes) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(descriptor_, bytes.data() + have, bytes.size() - have);
    if (got < 0 && may_go_on(descriptor_, POLLIN)) continue;
    if (got < 0) return failed("reading '" + name_ + "'", std::strerror(errno));
    if (got == 0 && have == 0) return false;
    if (got == 0) {
      return failed(
          "reading '" + name_ + "'",
          fmt::format("it ends after {} of the {} bytes of a vector", have, bytes.size()));
    }
    have += static_cast<std::size_t>(got);
  }
  return true;
}

Status VectorStream::finish() { return file_ ? file_->commit() : Status(); }

Status VectorStream::write(std::span<const std::byte> bytes) {
  if (file_) return file_->write(bytes);
  while (!bytes.empty()) {
    const ssize_t put = ::write(descriptor_, bytes.data(), bytes.size());
    if (put < 0 && may_go_on(descriptor_, POLLOUT)) continue;
    if (put < 0) return failed("writing '" + name_ + "'", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

}  // namespace tessera::tools
