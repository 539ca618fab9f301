// A bare socket with a length in front of each message, blocking: what the others are measured by.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "candidate.h"

namespace tessera::bench {
namespace {

sockaddr_in address_of(const std::string& place) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(place.c_str())));
  return address;
}

void set_options(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

void read_all(int socket, std::byte* target, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::recv(socket, target, bytes, MSG_WAITALL);
    if (count <= 0) std::_Exit(0);
    target += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

class SocketClient : public Client {
 public:
  explicit SocketClient(int socket) : socket_(socket) { set_options(socket); }
  ~SocketClient() override { ::close(socket_); }
  void send(std::span<const std::byte> message) override {
    std::uint64_t size = message.size();
    iovec parts[2] = {{&size, sizeof size},
                      {const_cast<std::byte*>(message.data()), message.size()}};
    std::size_t left = sizeof size + message.size();
    while (left > 0) {
      const ssize_t count = ::writev(socket_, parts, 2);
      if (count < 0) std::_Exit(1);
      left -= static_cast<std::size_t>(count);
      std::size_t taken = static_cast<std::size_t>(count);
      for (iovec& part : parts) {
        const std::size_t here = std::min(taken, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + here;
        part.iov_len -= here;
        taken -= here;
      }
    }
  }
  std::size_t receive(std::span<std::byte> target) override {
    std::uint64_t size = 0;
    read_all(socket_, reinterpret_cast<std::byte*>(&size), sizeof size);
    read_all(socket_, target.data(), size);
    return size;
  }

 private:
  int socket_;
};

void serve(const std::string& place, const std::function<void()>& listens) {
  const int listening = ::socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  ::setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const sockaddr_in address = address_of(place);
  if (::bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listening, 1) != 0) {
    std::_Exit(1);
  }
  listens();
  SocketClient peer(::accept(listening, nullptr, nullptr));
  answer(peer);
}

}  // namespace

std::vector<Candidate> socket_candidates() {
  return {{"bare socket", serve, [](const std::string& place) -> std::unique_ptr<Client> {
             const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
             const sockaddr_in address = address_of(place);
             if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
                 0) {
               std::_Exit(1);
             }
             return std::make_unique<SocketClient>(socket);
           }}};
}

}  // namespace tessera::bench
