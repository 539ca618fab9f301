// ZeroMQ: a pair of sockets over TCP, messages without a copy on the way out.
#include <zmq.h>

#include <cstdlib>
#include <cstring>

#include "candidate.h"

namespace tessera::bench {
namespace {

class ZeromqClient : public Client {
 public:
  ZeromqClient(const std::string& place, bool is_server)
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, ZMQ_PAIR)) {
    const std::string address = "tcp://127.0.0.1:" + place;
    const int failed =
        is_server ? zmq_bind(socket_, address.c_str()) : zmq_connect(socket_, address.c_str());
    if (failed != 0) std::_Exit(1);
  }
  ~ZeromqClient() override {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  void send(std::span<const std::byte> message) override {
    // The bench does not change its bytes, so that nothing waits until they are free.
    zmq_msg_t out;
    zmq_msg_init_data(
        &out, const_cast<std::byte*>(message.data()), message.size(), [](void*, void*) {}, nullptr);
    if (zmq_msg_send(&out, socket_, 0) < 0) std::_Exit(0);
  }
  std::size_t receive(std::span<std::byte> target) override {
    zmq_msg_t in;
    zmq_msg_init(&in);
    if (zmq_msg_recv(&in, socket_, 0) < 0) std::_Exit(0);
    const std::size_t bytes = zmq_msg_size(&in);
    // The library's memory; what a caller wants elsewhere is copied.
    std::memcpy(target.data(), zmq_msg_data(&in), bytes);
    zmq_msg_close(&in);
    return bytes;
  }

 private:
  void* context_;
  void* socket_;
};

void serve(const std::string& place, const std::function<void()>& listens) {
  ZeromqClient peer(place, true);
  listens();
  answer(peer);
}

}  // namespace

std::vector<Candidate> zeromq_candidates() {
  return {{"ZeroMQ tcp", serve,
           [](const std::string& place) { return std::make_unique<ZeromqClient>(place, false); }}};
}

}  // namespace tessera::bench
