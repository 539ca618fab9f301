// A connection between two processes that sends and receives messages in order.
//
//   send() ─► [queue, bounded] ─► tcp | tls | shm | ucx ─► on_head ─► on_message
//
// Callbacks of a connection come one after another on its transport's thread, which serves all
// connections: they hand on what takes long. Nothing is called after on_end has returned.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "transport/address.h"
#include "transport/message.h"

namespace tessera::transport {

class Connection;

struct Handlers {
  // Optional: the place for the buffers of a message whose header is there. An error ends the
  // connection with it.
  std::function<Result<Placement>(Connection&, const IncomingHead&)> on_head{};
  std::function<void(Connection&, IncomingMessage)> on_message{};
  // Once, last: why the connection ended. kUnavailable: the peer closed it, is gone, silent or slow,
  // or close() was called here. kInvalidArgument: the peer broke the protocol or a limit. The message
  // names the peer.
  std::function<void(Connection&, const Error&)> on_end{};
};

// Who is on the other side, as far as the medium proves it.
struct Peer {
  Address address{};               // as the system gives it; of shared memory the path
  std::string certificate_name{};  // TLS with a certificate of the peer: its common name
  std::int64_t process = 0;        // shared memory: its process and user
  std::int64_t user = -1;
};

// Thread-safe. Ends when close() is called, when its last shared_ptr goes, with its transport, or
// when the peer goes.
class Connection {
 public:
  virtual ~Connection() = default;

  // Queues a message, and writes what can be written without waiting. Messages arrive in the order of
  // the calls. Waits up to `timeout` for room in the queue (Limits::send_bytes, send_messages); on the
  // transport's thread it never waits.
  // kUnavailable: no room in time (the message says since when the peer takes nothing), or the
  // connection has ended. kDoesNotFit: beyond the limits. With an error, `done` is not called.
  virtual Status send(OutgoingMessage message, std::chrono::milliseconds timeout) = 0;

  // Bytes and messages that wait to be sent.
  struct Queue {
    std::size_t bytes = 0, messages = 0;
  };
  virtual Queue queue() const = 0;

  virtual const Peer& peer() const = 0;

  // Ends it: what waits is dropped, with `done` called. close_when_sent() sends first what waits, up to
  // Limits::progress_time for each piece.
  virtual void close() = 0;
  virtual void close_when_sent() = 0;
  virtual bool has_ended() const = 0;
};

}  // namespace tessera::transport
