// An HTTP/1.1 server with one thread, whatever its clients do: connections are states of its event
// loop (Boost.Asio), and everything that they can make it hold has a bound (limits.h).
//
//   clients ══► [accept | read | parse] ─► handler(request, reply) ─► any thread: reply.send(...)
//           ◄══ [write, piece by piece] ◄──────────────────────────────────────────────┘
//
// What a client does ends its own connection at most. Nothing is thrown out of the server's thread;
// where memory, threads or file descriptors end, requests are refused until there are some again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "http/limits.h"
#include "http/message.h"

namespace tessera::http {

class ServerCore;

// The way back to the client of one request. Movable; send() may be called from any thread, once.
// A reply that is dropped unsent answers 500. One that comes too late, or after the server's end,
// goes nowhere.
class Reply {
 public:
  Reply(std::weak_ptr<ServerCore> core, std::uint64_t connection, std::uint64_t request);
  Reply(Reply&& other) noexcept;
  Reply& operator=(Reply&& other) = delete;
  ~Reply();

  void send(Response response) noexcept;

 private:
  std::weak_ptr<ServerCore> core_;  // empty once it is sent
  std::uint64_t connection_, request_;
};

struct ServerOptions {
  std::string address = "127.0.0.1";  // or a name of this machine
  int port = 0;                       // 0: any that is free
  Limits limits = {};
  std::vector<Field> fields = {};  // of every response
  // The server's certificate, with those between, and its key, as PEM. Empty: HTTP without TLS.
  std::string certificate = {}, key = {};
  // Called on the server's thread, so it must be quick or hand the reply on.
  std::function<void(Request, Reply)> handler{};
};

class Server {
 public:
  // An error where the certificate or key is wrong, where the address is taken or not of this machine, and where the system has no thread
  // or file descriptor for it.
  static Result<std::unique_ptr<Server>> start(ServerOptions options);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // Ends all connections; not from the handler. In the child of a fork it leaves everything to the
  // parent.
  ~Server();

  int port() const { return port_; }
  // Accepts no more connections, and waits until no answer is owed or on its way; idle connections stay open
  // meanwhile. False: there still was one after `patience`.
  bool finish(std::chrono::milliseconds patience);

 private:
  Server() = default;
  std::shared_ptr<ServerCore> core_;  // replies look whether it is still there
  std::unique_ptr<std::thread> thread_;
  int port_ = 0;
  int process_ = 0;  // that has the thread
};

}  // namespace tessera::http
