// nng: a pair of sockets over TCP. Its messages own their memory: what is sent is copied into one.
#include <nng/nng.h>
#include <nng/protocol/pair0/pair.h>

#include <cstdlib>
#include <cstring>

#include "candidate.h"

namespace tessera::bench {
namespace {

class NngClient : public Client {
 public:
  NngClient(const std::string& place, bool is_server) {
    const std::string address = "tcp://127.0.0.1:" + place;
    nng_pair0_open(&socket_);
    nng_socket_set_size(socket_, NNG_OPT_RECVMAXSZ, 0);
    const int failed = is_server ? nng_listen(socket_, address.c_str(), nullptr, 0)
                                 : nng_dial(socket_, address.c_str(), nullptr, 0);
    if (failed != 0) std::_Exit(1);
  }
  ~NngClient() override { nng_close(socket_); }
  void send(std::span<const std::byte> message) override {
    nng_msg* out = nullptr;
    nng_msg_alloc(&out, message.size());
    std::memcpy(nng_msg_body(out), message.data(), message.size());
    if (nng_sendmsg(socket_, out, 0) != 0) std::_Exit(0);
  }
  std::size_t receive(std::span<std::byte> target) override {
    nng_msg* in = nullptr;
    if (nng_recvmsg(socket_, &in, 0) != 0) std::_Exit(0);
    const std::size_t bytes = nng_msg_len(in);
    std::memcpy(target.data(), nng_msg_body(in), bytes);
    nng_msg_free(in);
    return bytes;
  }

 private:
  nng_socket socket_{};
};

void serve(const std::string& place, const std::function<void()>& listens) {
  NngClient peer(place, true);
  listens();
  answer(peer);
}

}  // namespace

std::vector<Candidate> nng_candidates() {
  return {{"nng tcp", serve,
           [](const std::string& place) { return std::make_unique<NngClient>(place, false); }}};
}

}  // namespace tessera::bench
