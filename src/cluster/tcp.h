// Channels over TCP: one connection each, calls matched with answers by their ids.
//
//   call() ─► [head | text | body] ══► reader ─► queue ─► worker: handle() ─┐
//   call() ◄─ reader, by the id    ◄══ [head | text | body] ◄───────────────┘
//
// The server has two threads for each connection: while one request is worked on the next one is read. What a
// peer does ends its own connection at most.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cluster/channel.h"

namespace tessera::cluster {

std::unique_ptr<Dialer> make_tcp_dialer();

struct TcpServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  std::size_t connections_max = 1024;
  // From a connection to its first message, and from one's first byte to the end of its text; a body may take longer
  // as long as some of it comes in so much time.
  std::chrono::milliseconds first_message_time{10'000}, message_time{30'000};
  std::size_t queue_max = 64;      // requests of a connection that wait; then no more are read
  Responder* responder = nullptr;  // outlives the server
};

class TcpServer {
 public:
  // kUnavailable: the address is taken or not of this machine, or the system has no thread or descriptor left.
  static Result<std::unique_ptr<TcpServer>> start(const TcpServerOptions& options);
  virtual ~TcpServer() = default;  // ends all connections, and waits for what is worked on
  virtual int port() const = 0;
};

}  // namespace tessera::cluster
