// Messages between processes: one thread that serves listeners and connections of every medium.
//
//   auto transport = Transport::create({}).value();
//   auto listener = transport->listen(address, [](const auto& connection) { return Handlers{...}; });
//   auto connection = transport->connect(address, handlers, 2s);
//   connection->send({.header = ..., .buffers = {tensor}}, 1s);
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "transport/address.h"
#include "transport/connection.h"
#include "transport/limits.h"
#include "transport/tls_files.h"

namespace tessera::transport {

struct TransportOptions {
  Limits limits{};
  // Of tcp: all connections of this transport use TLS, or none. The client also checks that the
  // server's certificate is for the host it asked for, or for `server_name` where that is given.
  std::optional<TlsFiles> tls{};
  std::string server_name{};
  // tcp without TLS beyond loopback is refused unless this says otherwise. ucx, which has no TLS, too.
  bool allow_plain_network = false;
  // Who came in and was refused by TLS, or since only one side has it, and why; on the transport's thread. The certificate's name is then what the
  // peer says of itself. Not those that leave by themselves.
  std::function<void(const Peer&, const Error&)> on_refused{};
};

// Stops listening when it is destroyed; connections that were accepted stay.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual const Address& address() const = 0;  // with the port that was chosen
};

// Thread-safe. The destructor ends all connections (on_end is called) and the thread; it is not called
// from a callback. Listeners may outlive it, and do nothing then; so may connections.
class Transport {
 public:
  // What handles a connection that came in; on the transport's thread. The transport keeps it while it
  // is open; whoever sends to it later keeps the shared_ptr (outside its own handlers, which it holds).
  using OnConnection = std::function<Handlers(const std::shared_ptr<Connection>&)>;

  // kInvalidArgument: a file of TLS cannot be read or does not fit the others.
  static Result<std::unique_ptr<Transport>> create(TransportOptions options);
  virtual ~Transport() = default;

  // kUnavailable: nobody there, or no greeting in time. kUnsupported: this build has no such medium.
  // kInvalidArgument: TLS refused the peer, or the network would be plain. The connection ends with the
  // last shared_ptr to it, whose destructor waits for a callback that runs. Not called from a callback.
  virtual Result<std::shared_ptr<Connection>> connect(const Address& address, Handlers handlers,
                                                      std::chrono::milliseconds timeout) = 0;

  // kUnavailable: the address is taken. shm: makes the socket with access for its user alone, and takes
  // over one that nobody listens at.
  virtual Result<std::unique_ptr<Listener>> listen(const Address& address,
                                                   OnConnection on_connection) = 0;

  // Of kUcx: whether this build has it.
  static bool has_medium(Medium medium);
};

}  // namespace tessera::transport
