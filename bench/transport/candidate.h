// What could carry messages between a client and a node daemon, each behind the same few calls.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::bench {

// The client's side, blocking. A message begins with a byte that says what the server does:
// 'e' sends it back, 'a' takes it, 'q' answers with one byte when everything before it was taken.
class Client {
 public:
  virtual ~Client() = default;
  virtual void send(std::span<const std::byte> message) = 0;
  // The next answer, into the target; its size.
  virtual std::size_t receive(std::span<std::byte> target) = 0;
};

struct Candidate {
  std::string name;
  // Serves one client at the place, and says when it listens; never returns.
  std::function<void(const std::string& place, const std::function<void()>& listens)> serve;
  std::function<std::unique_ptr<Client>(const std::string& place)> connect;
};

// `place` is a free port on loopback, or for shared memory a number for a path.
std::vector<Candidate> socket_candidates();
std::vector<Candidate> own_candidates();
// Empty where the library was not found at configure time.
std::vector<Candidate> zeromq_candidates();
std::vector<Candidate> nng_candidates();
std::vector<Candidate> ucx_candidates();

inline constexpr std::size_t kMessageBytesMax = std::size_t{16} << 20;

// The server's side of a candidate that has the same calls at both ends.
[[noreturn]] inline void answer(Client& peer) {
  std::vector<std::byte> message(kMessageBytesMax);
  for (;;) {
    const std::size_t bytes = peer.receive(message);
    if (message[0] == std::byte{'e'}) peer.send(std::span(message).first(bytes));
    if (message[0] == std::byte{'q'}) peer.send(std::span(message).first(1));
  }
}

}  // namespace tessera::bench
