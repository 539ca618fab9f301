#include "transport/tcp.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/deadline.h"

namespace tessera::transport {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Error failed(const Address& address, const std::string& what) {
  return {ErrorCode::kUnavailable, fmt::format("{}: {}", address.to_string(), what)};
}

Result<AddressList> look_up(const Address& address, bool is_listening) {
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_NUMERICSERV | (is_listening ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error =
      ::getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &wanted, &found);
  if (error != 0) return failed(address, fmt::format("no such host: {}", ::gai_strerror(error)));
  return AddressList(found, &::freeaddrinfo);
}

bool is_loopback_address(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* const four = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
  }
  if (address->sa_family != AF_INET6) return false;
  const auto* const six = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

// A message is one write; nothing is gained by waiting for more.
void set_options(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
}

// 0, or what went wrong.
int connect_one(int socket, const addrinfo& to, Clock::time_point deadline) {
  if (::connect(socket, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  for (;;) {
    pollfd waiting{.fd = socket, .events = POLLOUT, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(time_until(deadline).count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return ETIMEDOUT;
    int error = 0;
    socklen_t bytes = sizeof error;
    ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
    return error;
  }
}

}  // namespace

Address numeric_address(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET6) {
    const auto* const six = reinterpret_cast<const sockaddr_in6*>(address);
    ::inet_ntop(AF_INET6, &six->sin6_addr, text, sizeof text);
    return {.host = text, .port = ntohs(six->sin6_port)};
  }
  const auto* const four = reinterpret_cast<const sockaddr_in*>(address);
  ::inet_ntop(AF_INET, &four->sin_addr, text, sizeof text);
  return {.host = text, .port = ntohs(four->sin_port)};
}

Result<SystemAddress> system_address(const Address& address, bool is_listening) {
  TESSERA_TRY(const AddressList found, look_up(address, is_listening));
  SystemAddress made{.storage = {}, .bytes = found->ai_addrlen};
  std::memcpy(&made.storage, found->ai_addr, found->ai_addrlen);
  return made;
}

Result<bool> is_loopback(const Address& address) {
  TESSERA_TRY(const AddressList found, look_up(address, false));
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    if (!is_loopback_address(each->ai_addr)) return false;
  }
  return true;
}

Result<TcpSocket> connect_tcp(const Address& address, Clock::time_point deadline) {
  TESSERA_TRY(const AddressList found, look_up(address, false));
  int error = 0;
  for (const addrinfo* each = found.get(); each != nullptr; each = each->ai_next) {
    Descriptor socket(
        ::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, each->ai_protocol));
    if (socket.get() < 0) return failed(address, std::strerror(errno));
    error = connect_one(socket.get(), *each, deadline);
    if (error != 0) continue;
    set_options(socket.get());
    return TcpSocket{.descriptor = std::move(socket),
                     .address = numeric_address(each->ai_addr),
                     .is_loopback = is_loopback_address(each->ai_addr)};
  }
  return failed(address, std::strerror(error));
}

Result<TcpSocket> listen_tcp(const Address& address) {
  TESSERA_TRY(const AddressList found, look_up(address, true));
  const addrinfo& first = *found;
  Descriptor socket(
      ::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, first.ai_protocol));
  const int one = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(socket.get(), first.ai_addr, first.ai_addrlen) != 0 ||
      ::listen(socket.get(), 1024) != 0) {
    return failed(address, fmt::format("cannot listen there: {}", std::strerror(errno)));
  }
  sockaddr_storage own{};
  socklen_t bytes = sizeof own;
  auto* const general = reinterpret_cast<sockaddr*>(&own);
  ::getsockname(socket.get(), general, &bytes);
  return TcpSocket{.descriptor = std::move(socket),
                   .address = numeric_address(general),
                   .is_loopback = is_loopback_address(general)};
}

Accepted accept_tcp(int listening) {
  sockaddr_storage from{};
  socklen_t bytes = sizeof from;
  auto* const general = reinterpret_cast<sockaddr*>(&from);
  Descriptor socket(::accept4(listening, general, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.get() < 0) return {};
  set_options(socket.get());
  return {.descriptor = std::move(socket), .address = numeric_address(general)};
}

}  // namespace tessera::transport
