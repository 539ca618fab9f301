// A TCP connection to this machine on which a test sends any bytes at all. Errors are for the test
// to see: what a server refuses, it may close in the middle.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::http {

class RawSocket {
 public:
  // `receive_bytes`: how much the system takes in for a reader that does not read; 0: its choice.
  explicit RawSocket(int port, int receive_bytes = 0) {
    if (receive_bytes > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  RawSocket(RawSocket&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  RawSocket& operator=(RawSocket&&) = delete;
  ~RawSocket() {
    if (socket_ >= 0) close(socket_);
  }

  bool is_connected() const { return connected_; }

  // False where the other side has closed.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  // What comes until it has `until`, the other side closes, or nothing comes for 20 seconds.
  std::string read_until(std::string_view until) const {
    std::string text;
    char buffer[4096];
    while (is_readable(20'000)) {
      const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
      if (got <= 0) break;
      // It may have begun in what was there before.
      const std::size_t from = text.size() - std::min(text.size(), until.size());
      text.append(buffer, static_cast<std::size_t>(got));
      if (text.find(until, from) != std::string::npos) break;
    }
    return text;
  }
  // What is there already, up to `bytes`.
  void take(char* into, std::size_t bytes) const {
    if (recv(socket_, into, bytes, MSG_DONTWAIT) < 0) return;
  }
  // Everything up to the end of the connection.
  std::string read_all() const {
    std::string text, more;
    while (!(more = read_some()).empty()) text += more;
    return text;
  }
  // The other side has closed; waits for that.
  bool is_closed() const {
    char byte = 0;
    return is_readable(20'000) && recv(socket_, &byte, 1, MSG_PEEK) <= 0;
  }
  bool is_readable(int milliseconds) const {
    pollfd question = {.fd = socket_, .events = POLLIN, .revents = 0};
    return poll(&question, 1, milliseconds) > 0;
  }

 private:
  std::string read_some() const {
    char buffer[4096];
    if (!is_readable(20'000)) return {};
    const ssize_t got = recv(socket_, buffer, sizeof(buffer), 0);
    return got <= 0 ? std::string() : std::string(buffer, static_cast<std::size_t>(got));
  }

  int socket_ = socket(AF_INET, SOCK_STREAM, 0);
  bool connected_ = false;
};

}  // namespace tessera::http
