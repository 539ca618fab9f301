// A stream of bytes in both directions: what the media have in common.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/connection.h"
#include "transport/message.h"

namespace tessera::transport {

enum class IoState {
  kDone,    // `bytes` went, at least one
  kAgain,   // nothing now; a descriptor becomes ready when there is
  kEnd,     // read: the peer will send nothing more
  kFailed,  // `why`
};

struct IoResult {
  IoState state = IoState::kAgain;
  std::size_t bytes = 0;
  std::string why{};
};

// read() and write() may run at the same time, each on one thread.
class ByteStream {
 public:
  virtual ~ByteStream() = default;  // shuts

  // Wait for these, as edges.
  virtual std::vector<int> descriptors() const = 0;

  // What must happen before bytes can flow; kDone when it has. kFailed: with kInvalidArgument's sense,
  // the peer is not who it should be.
  virtual IoResult handshake() { return {.state = IoState::kDone}; }

  virtual IoResult read(MutableBytes target) = 0;
  // The parts stay valid until they are written.
  virtual IoResult write(std::span<const iovec> parts) = 0;

  // Closes its descriptors; nothing is called afterwards but peer().
  virtual void shut() = 0;

  // Whom it leads to; complete after the handshake.
  virtual Peer peer() const = 0;
};

// A connected, non-blocking stream socket, which it owns.
std::unique_ptr<ByteStream> socket_stream(int descriptor, Peer peer);

// Makes descriptors close themselves.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  int get() const { return number_; }
  int release();

 private:
  int number_ = -1;
};

}  // namespace tessera::transport
