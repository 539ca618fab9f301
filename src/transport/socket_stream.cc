#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "transport/stream.h"

namespace tessera::transport {
namespace {

class SocketStream : public ByteStream {
 public:
  SocketStream(int descriptor, Peer peer) : socket_(descriptor), peer_(std::move(peer)) {}

  std::vector<int> descriptors() const override { return {socket_.get()}; }

  IoResult read(MutableBytes target) override {
    for (;;) {
      const ssize_t count = ::recv(socket_.get(), target.data(), target.size(), 0);
      if (count > 0) return {.state = IoState::kDone, .bytes = static_cast<std::size_t>(count)};
      if (count == 0) return {.state = IoState::kEnd};
      if (errno == EINTR) continue;
      return result_of(errno);
    }
  }

  IoResult write(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = std::min<std::size_t>(parts.size(), IOV_MAX);
    for (;;) {
      const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
      if (count >= 0) return {.state = IoState::kDone, .bytes = static_cast<std::size_t>(count)};
      if (errno == EINTR) continue;
      return result_of(errno);
    }
  }

  void shut() override { socket_ = Descriptor(); }
  Peer peer() const override { return peer_; }

 private:
  static IoResult result_of(int error) {
    if (error == EAGAIN || error == EWOULDBLOCK) return {.state = IoState::kAgain};
    return {.state = IoState::kFailed, .why = std::strerror(error)};
  }

  Descriptor socket_;
  const Peer peer_;
};

}  // namespace

std::unique_ptr<ByteStream> socket_stream(int descriptor, Peer peer) {
  return std::make_unique<SocketStream>(descriptor, std::move(peer));
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (number_ >= 0) ::close(number_);
  number_ = other.release();
  return *this;
}

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

int Descriptor::release() { return std::exchange(number_, -1); }

}  // namespace tessera::transport
