// Channels and servers over src/transport/: one connection each, calls matched with answers by their ids.
//
//   call() ─► [header | pieces] ══► transport's thread ─► queue ─► worker: handle() ─┐
//   call() ◄─ transport's thread, by the id ◄══ [header | pieces] ◄──────────────────┘
//
// TCP, with TLS where there are certificates; shared memory on one machine; UCX. A server has one thread for each
// connection, in which its requests are worked on. What a peer does ends its own connection at most.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cluster/channel.h"
#include "transport/tls_files.h"

namespace tessera::cluster {

struct MessengerOptions {
  // Of TCP: both sides show a certificate that the authority has signed, and the one that is asked for is for the
  // host. Without: TCP on this machine alone.
  std::optional<transport::TlsFiles> tls = {};
  bool allow_plain_network = false;  // beyond this machine without TLS, too
  // Of a server: a line for each peer that TLS refuses, "connect" with its address, what its certificate says of it,
  // and why. Not called by two threads at once.
  std::function<void(const nlohmann::json&)> audit = {};
  // From a connection to its greeting; within a message without a byte; without a sign of life.
  std::chrono::milliseconds handshake_time{5'000}, progress_time{10'000}, silence_time{10'000};
};

struct MessageServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any that is free
  // Besides, for this user on this machine: shared memory, over a socket in this folder. Empty: none.
  std::string shared_memory_folder = {};
  bool ucx = false;  // besides: at the same address, at any port
  std::size_t connections_max = 1024;
  // Beyond connections_max, who has said nothing for so long makes room.
  std::chrono::milliseconds first_message_time{10'000};
  Responder* responder = nullptr;  // outlives the server
};

class MessageServer {
 public:
  virtual ~MessageServer() = default;  // ends all connections, and waits for what is worked on
  virtual int port() const = 0;
  virtual int ucx_port() const = 0;               // 0: none
  virtual std::string shared_memory() const = 0;  // the socket's path; empty: none
};

// For several threads at once. Channels and servers end with it.
class Messenger : public Dialer {
 public:
  // kInvalidArgument: a file of TLS cannot be read or does not fit the others.
  static Result<std::unique_ptr<Messenger>> create(const MessengerOptions& options = {});
  // kUnavailable: an address is taken or not of this machine. kInvalidArgument: it would listen beyond this machine
  // without TLS. kUnsupported: this build has no UCX.
  virtual Result<std::unique_ptr<MessageServer>> serve(const MessageServerOptions& options) = 0;
};

// Of this machine since it was started: who has the same one may share memory. Empty: the system does not say.
std::string machine_name();

}  // namespace tessera::cluster
