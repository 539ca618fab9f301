// Messages: a small header, and buffers which are neither joined nor copied on their way to the
// socket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace tessera::transport {

using ConstBytes = std::span<const std::byte>;
using MutableBytes = std::span<std::byte>;

// What is sent. The header is kept by the connection; the bytes of the buffers stay where they are,
// unchanged, until `done` was called.
struct OutgoingMessage {
  std::vector<std::byte> header{};
  std::vector<ConstBytes> buffers{};
  // Called once, where send() was successful: the bytes are with the system or the peer (which does
  // not mean that the peer has read them), or the connection ended before with this error. Called on
  // the thread in send() or on the transport's; may send, may not wait. May be empty.
  std::function<void(const Status&)> done{};
};

// What is known of a message before its buffers come.
struct IncomingHead {
  ConstBytes header{};  // valid during the call
  std::span<const std::uint64_t> buffer_bytes{};
};

// Where the buffers are to be written: for each buffer, memory of exactly its size that stays until
// the message was received or the connection has ended. Empty: the connection takes memory of its own.
using Placement = std::vector<MutableBytes>;

// What was received. Movable; keep it as long as its bytes are needed: memory of the connection's own
// goes back with it. It may outlive the connection.
struct IncomingMessage {
  std::vector<std::byte> header{};
  std::vector<MutableBytes> buffers{};  // where the placement said, or in `memory`
  // Counts as held (Limits::held_bytes) until it is destroyed; any thread. Shared with nobody else: the
  // pointer hides the type.
  std::shared_ptr<void> memory{};
};

}  // namespace tessera::transport
