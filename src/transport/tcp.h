// Sockets of TCP: names to addresses, connecting, listening.
#pragma once

#include <sys/socket.h>

#include "base/result.h"
#include "transport/address.h"
#include "transport/loop.h"
#include "transport/stream.h"

namespace tessera::transport {

struct TcpSocket {
  Descriptor descriptor;
  Address address;  // listening: its own, with the port; else the peer's
  bool is_loopback = false;
};

// Tries each address of the name until one answers. Names are looked up by the system, which may take
// longer than the deadline.
Result<TcpSocket> connect_tcp(const Address& address, Clock::time_point deadline);
Result<TcpSocket> listen_tcp(const Address& address);
// Whether a host is this machine's loopback, whatever it is called.
Result<bool> is_loopback(const Address& address);
// The first address of a name, for who connects or listens by other means.
struct SystemAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
};
Result<SystemAddress> system_address(const Address& address, bool is_listening);
// Host and port in numbers.
Address numeric_address(const sockaddr* address);
// The next connection; nothing where there is none now.
struct Accepted {
  Descriptor descriptor;
  Address address;
};
Accepted accept_tcp(int listening);

}  // namespace tessera::transport
