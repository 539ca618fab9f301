#include "tools/stream/vector_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tessera::tools {
namespace {

// A file, or a pipe, which waits for its writer; or a descriptor that this process has.
Result<int> open_to_read(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0)
    return stream_error("'" + path + "'", std::strerror(errno));
  const int own = follow_links(path).descriptor;
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode) && own < 0) {
    const char* const kind = S_ISDIR(status.st_mode)    ? "a folder"
                             : S_ISSOCK(status.st_mode) ? "a socket, which is unix:PATH"
                                                        : "a device";
    return stream_error("'" + path + "'",
                        fmt::format("it is {}; allowed are a file and a pipe", kind));
  }
  // A socket cannot be opened by a name.
  const int descriptor = own >= 0 ? ::fcntl(own, F_DUPFD_CLOEXEC, 0)
                                  : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (descriptor < 0) return stream_error("'" + path + "'", std::strerror(errno));
  return descriptor;
}

// True: it was no error, and writing may be tried again. A descriptor that another process made
// non-blocking is waited for.
bool may_write_again(int descriptor) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  pollfd ready = {.fd = descriptor, .events = POLLOUT, .revents = 0};
  (void)::poll(&ready, 1, -1);
  return true;
}

}  // namespace

Result<std::shared_ptr<VectorStream>> VectorStream::of_descriptor(const std::string& name,
                                                                  int descriptor, bool owned) {
  const int stop = ::eventfd(0, EFD_CLOEXEC);
  if (stop >= 0) {
    return std::shared_ptr<VectorStream>(new VectorStream(name, descriptor, owned, stop));
  }
  const int reason = errno;
  if (owned) ::close(descriptor);
  return stream_error("'" + name + "'", std::strerror(reason));
}

Result<std::shared_ptr<VectorStream>> VectorStream::open_one(const std::string& name, bool write) {
  int descriptor = -1;
  bool owned = true;
  if (name == "-") {
    descriptor = write ? STDOUT_FILENO : STDIN_FILENO;
    owned = false;
  } else if (is_socket_name(name)) {
    TESSERA_TRY(descriptor, connect_to(name));
  } else if (write) {
    TESSERA_TRY(OutputFile file, OutputFile::create(name));
    return std::shared_ptr<VectorStream>(new VectorStream(name, std::move(file)));
  } else {
    TESSERA_TRY(descriptor, open_to_read(name));
  }
  return of_descriptor(name, descriptor, owned);
}

Result<VectorStream::Ends> VectorStream::open(const std::string& in, const std::string& out) {
  TESSERA_TRY(StreamEnds ends, StreamEnds::open(in, out, [](const std::string&) {}));
  return ends.next();
}

VectorStream::~VectorStream() {
  if (owned_) ::close(descriptor_);
  if (stop_ >= 0) ::close(stop_);
}

void VectorStream::stop_reading() {
  const std::uint64_t one = 1;
  if (stop_ >= 0) (void)!::write(stop_, &one, sizeof(one));
}

bool VectorStream::wait_to_read() const {
  pollfd ready[2] = {{.fd = descriptor_, .events = POLLIN, .revents = 0},
                     {.fd = stop_, .events = POLLIN, .revents = 0}};
  while (::poll(ready, 2, -1) < 0 && errno == EINTR) {
  }
  return ready[1].revents == 0;
}

Result<bool> VectorStream::read(std::span<std::byte> bytes, const char* what) {
  std::size_t have = 0;
  while (have < bytes.size()) {
    if (!wait_to_read()) return stream_error("reading '" + name_ + "'", "stopped");
    const ssize_t got = ::read(descriptor_, bytes.data() + have, bytes.size() - have);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) return stream_error("reading '" + name_ + "'", std::strerror(errno));
    if (got == 0 && have == 0) return false;
    if (got == 0) {
      return stream_error(
          "reading '" + name_ + "'",
          fmt::format("it ends after {} of the {} bytes of {}", have, bytes.size(), what));
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
    if (put < 0 && may_write_again(descriptor_)) continue;
    if (put < 0) return stream_error("writing '" + name_ + "'", std::strerror(errno));
    bytes = bytes.subspan(static_cast<std::size_t>(put));
  }
  return {};
}

Status StreamEnds::listen() {
  if (in_.starts_with(kListenPrefix)) {
    TESSERA_TRY(in_listener_, Listener::open(in_.substr(kListenPrefix.size())));
  }
  if (out_.starts_with(kListenPrefix) && in_ != out_) {
    TESSERA_TRY(out_listener_, Listener::open(out_.substr(kListenPrefix.size())));
  }
  return {};
}

Result<std::shared_ptr<VectorStream>> StreamEnds::one(const std::string& name, Listener* listener,
                                                      bool write) {
  if (listener == nullptr) return VectorStream::open_one(name, write);
  TESSERA_TRY(const int descriptor, listener->accept());
  return VectorStream::of_descriptor(name, descriptor, true);
}

Result<VectorStream::Ends> StreamEnds::next() {
  VectorStream::Ends ends;
  TESSERA_TRY(ends.in, one(in_, in_listener_.get(), false));
  if (is_socket_name(in_) && in_ == out_) {
    ends.out = ends.in;
    return ends;
  }
  TESSERA_TRY(ends.out, one(out_, out_listener_.get(), true));
  return ends;
}

}  // namespace tessera::tools
