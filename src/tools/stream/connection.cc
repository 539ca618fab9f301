#include "tools/stream/connection.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tessera::tools {
namespace {

// A descriptor that is closed unless it is released.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

Result<sockaddr_un> local_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return stream_error("unix:" + path, "a socket's path has 1 to 107 characters");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

Result<int> connect_local(const std::string& path) {
  TESSERA_TRY(const sockaddr_un address, local_address(path));
  Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (descriptor.get() < 0 ||
      ::connect(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0) {
    return stream_error("unix:" + path, std::strerror(errno));
  }
  return descriptor.release();
}

struct HostAndPort {
  std::string host, port;
};

Result<HostAndPort> split(const std::string& address, bool any_host) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string::npos || (colon == 0 && !any_host) || colon + 1 == address.size()) {
    return stream_error("tcp:" + address,
                        any_host ? "expected listen:tcp:HOST:PORT; HOST may be empty, PORT 0 is any"
                                 : "expected tcp:HOST:PORT");
  }
  return HostAndPort{address.substr(0, colon), address.substr(colon + 1)};
}

// The addresses that the resolver knows for a host.
class Addresses {
 public:
  static Result<Addresses> of(const std::string& name, const HostAndPort& at, int flags) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = flags;
    addrinfo* found = nullptr;
    const int status =
        ::getaddrinfo(at.host.empty() ? nullptr : at.host.c_str(), at.port.c_str(), &hints, &found);
    if (status != 0) return stream_error(name, ::gai_strerror(status));
    return Addresses(found);
  }
  const addrinfo* first() const { return found_.get(); }

 private:
  explicit Addresses(addrinfo* found) : found_(found, &::freeaddrinfo) {}
  std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> found_;
};

Result<int> connect_network(const std::string& address) {
  TESSERA_TRY(const HostAndPort at, split(address, false));
  TESSERA_TRY(const Addresses addresses, Addresses::of("tcp:" + address, at, 0));
  int reason = 0;
  for (const addrinfo* one = addresses.first(); one != nullptr; one = one->ai_next) {
    Descriptor descriptor(
        ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    if (descriptor.get() >= 0 && ::connect(descriptor.get(), one->ai_addr, one->ai_addrlen) == 0) {
      return descriptor.release();
    }
    reason = errno;
  }
  return stream_error("tcp:" + address, std::strerror(reason));
}

// Removes a socket at which nobody listens any more. Anything else stays.
Status remove_old_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) {
    return stream_error("listen:unix:" + path, "something else has this name; choose another path");
  }
  const Descriptor probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool refused =
      ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
      errno == ECONNREFUSED;
  if (!refused) {
    return stream_error("listen:unix:" + path, "somebody listens there; choose another path");
  }
  ::unlink(path.c_str());
  return {};
}

std::string port_of(int descriptor) {
  sockaddr_storage taken{};
  socklen_t length = sizeof(taken);
  if (::getsockname(descriptor, reinterpret_cast<sockaddr*>(&taken), &length) != 0) return "?";
  const in_port_t port = taken.ss_family == AF_INET6
                             ? reinterpret_cast<const sockaddr_in6&>(taken).sin6_port
                             : reinterpret_cast<const sockaddr_in&>(taken).sin_port;
  return std::to_string(ntohs(port));
}

}  // namespace

Error stream_error(const std::string& place, const std::string& reason) {
  return {ErrorCode::kInvalidArgument, fmt::format("{}: {}", place, reason)};
}

bool is_socket_name(std::string_view name) {
  return name.starts_with(kListenPrefix) || name.starts_with(kLocalPrefix) ||
         name.starts_with(kNetworkPrefix);
}

Result<int> connect_to(const std::string& address) {
  if (address.starts_with(kLocalPrefix)) return connect_local(address.substr(kLocalPrefix.size()));
  return connect_network(address.substr(kNetworkPrefix.size()));
}

Result<std::unique_ptr<Listener>> Listener::open_local(const std::string& path) {
  TESSERA_TRY(const sockaddr_un address, local_address(path));
  TESSERA_RETURN_IF_ERROR(remove_old_socket(path, address));
  Descriptor descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (descriptor.get() < 0 ||
      ::bind(descriptor.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return stream_error("listen:unix:" + path, std::strerror(errno));
  }
  std::unique_ptr<Listener> listener(new Listener(descriptor.release(), "unix:" + path, path));
  if (::listen(listener->descriptor_, 16) != 0) {
    return stream_error("listen:unix:" + path, std::strerror(errno));
  }
  return listener;
}

Result<std::unique_ptr<Listener>> Listener::open_network(const std::string& host_and_port) {
  const std::string name = "listen:tcp:" + host_and_port;
  TESSERA_TRY(const HostAndPort at, split(host_and_port, true));
  TESSERA_TRY(const Addresses addresses, Addresses::of(name, at, AI_PASSIVE));
  int reason = 0;
  for (const addrinfo* one = addresses.first(); one != nullptr; one = one->ai_next) {
    Descriptor descriptor(
        ::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    const int yes = 1;
    if (descriptor.get() >= 0 &&
        ::setsockopt(descriptor.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        ::bind(descriptor.get(), one->ai_addr, one->ai_addrlen) == 0 &&
        ::listen(descriptor.get(), 16) == 0) {
      const std::string address = "tcp:" + at.host + ":" + port_of(descriptor.get());
      return std::unique_ptr<Listener>(new Listener(descriptor.release(), address, ""));
    }
    reason = errno;
  }
  return stream_error(name, std::strerror(reason));
}

Result<std::unique_ptr<Listener>> Listener::open(const std::string& address) {
  if (address.starts_with(kLocalPrefix)) return open_local(address.substr(kLocalPrefix.size()));
  if (address.starts_with(kNetworkPrefix)) {
    return open_network(address.substr(kNetworkPrefix.size()));
  }
  return stream_error("listen:" + address, "expected listen:unix:PATH or listen:tcp:HOST:PORT");
}

Listener::~Listener() {
  ::close(descriptor_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<int> Listener::accept() {
  while (true) {
    const int descriptor = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0) return descriptor;
    if (errno != EINTR && errno != ECONNABORTED) {
      return stream_error("listen:" + address_, std::strerror(errno));
    }
  }
}

}  // namespace tessera::tools
