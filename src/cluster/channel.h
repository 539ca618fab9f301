// How the processes of a cluster reach each other, seen from above: calls that are answered, and who answers
// them. What carries them is behind these interfaces (messenger.h; a simulation has its own).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/message.h"

namespace tessera::cluster {

using TimePoint = std::chrono::steady_clock::time_point;

using Parts = std::span<const std::span<const std::byte>>;  // a body, piece by piece

// A connection to a peer. For several threads at once: their calls are under way together, and are answered in
// any order.
class Channel {
 public:
  virtual ~Channel() = default;
  // Sends, and waits for the answer. The peer's own error comes back as it is. kUnavailable: there was no
  // answer by `deadline`, or the connection has ended; the peer may have done it all the same.
  // The body's bytes are read until it returns. kDoesNotFit: a message beyond the limits.
  virtual Result<Message> call(const std::string& text, Parts body, TimePoint deadline) = 0;
  virtual bool is_open() const = 0;
  // Calls that wait fail, and all later ones.
  virtual void end() = 0;
};

// Who opens channels. For several threads at once.
class Dialer {
 public:
  virtual ~Dialer() = default;
  // "HOST:PORT" by TCP; "shm:PATH", "ucx:HOST:PORT" by these. kUnavailable: nobody answers there by `deadline`.
  // kInvalidArgument: it is no address, or the two sides do not trust each other (TLS); trying again is no use.
  virtual Result<std::unique_ptr<Channel>> open(const std::string& endpoint,
                                                TimePoint deadline) = 0;
};

// A request as it came, and the answer.
struct Request {
  std::uint64_t connection =
      0;  // from which it came; those of a connection come one after the other
  std::string text;
  Body body;
  std::shared_ptr<void> admission;  // what arrived() gave
  TimePoint received = {};          // when all of it was there
  std::size_t waiting = 0;          // requests of the same connection that have come behind it
};
struct Reply {
  std::string text = "{}";
  std::vector<std::vector<std::byte>> body = {};  // pieces
};

// Who answers. Called by several threads at once, but for requests of one connection.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual Result<Reply> handle(Request request) = 0;
  // A request is there and waits for its turn; what this gives is in Request::admission, and goes when the answer
  // has been made. Not to wait in.
  virtual std::shared_ptr<void> arrived(std::uint64_t /*connection*/, std::string_view /*text*/) {
    return nullptr;
  }
  // Its last request has been answered, and no more will come.
  virtual void disconnected(std::uint64_t /*connection*/) {}
  // What may still come from it; asked before each message. Not to wait in.
  virtual MessageLimits limits(std::uint64_t /*connection*/) { return {}; }
};

}  // namespace tessera::cluster
