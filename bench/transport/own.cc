// The data layer itself. The server answers in its handler, as a node daemon does; the client waits on
// another thread than the transport's.
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "candidate.h"
#include "transport/transport.h"

namespace tessera::bench {
namespace {

using namespace std::chrono_literals;
using namespace transport;

Address address_of(Medium medium, const std::string& place) {
  if (medium == Medium::kSharedMemory) return {medium, "/tmp/tessera_bench_" + place};
  return {medium, "127.0.0.1", std::atoi(place.c_str())};
}

void serve(Medium medium, const std::string& place, const std::function<void()>& listens) {
  auto server = Transport::create({}).value();
  const Handlers handlers{.on_head = {},
                          .on_message =
                              [](Connection& from, IncomingMessage message) {
                                if (message.buffers[0][0] == std::byte{'a'}) return;
                                const bool is_echo = message.buffers[0][0] == std::byte{'e'};
                                const MutableBytes all = message.buffers[0];
                                OutgoingMessage answer{
                                    .header = {},
                                    .buffers = {is_echo ? all : all.first(1)},
                                    .done = [kept = std::move(message.memory)](const Status&) {}};
                                (void)from.send(std::move(answer), 0ms);
                              },
                          .on_end = [](Connection&, const Error&) { std::_Exit(0); }};
  auto listener =
      server->listen(address_of(medium, place), [&](const auto&) { return Handlers(handlers); });
  if (!listener.ok()) std::_Exit(1);
  listens();
  for (;;) ::pause();
}

class OwnClient : public Client {
 public:
  OwnClient(Medium medium, const std::string& place) : transport_(Transport::create({}).value()) {
    const Handlers handlers{
        .on_head = [this](Connection&, const IncomingHead& head) -> Result<Placement> {
          const std::lock_guard lock(mutex_);
          return Placement{target_.first(head.buffer_bytes[0])};
        },
        .on_message =
            [this](Connection&, const IncomingMessage& message) {
              const std::lock_guard lock(mutex_);
              answer_ = message.buffers[0].size();
              has_answer_ = true;
              changed_.notify_one();
            },
        .on_end = {}};
    connection_ = transport_->connect(address_of(medium, place), handlers, 5s).value();
  }
  // The caller's bytes are free again when this returns, as with the others.
  void send(std::span<const std::byte> message) override {
    std::unique_lock lock(mutex_);
    has_answer_ = is_sent_ = false;
    target_ = MutableBytes(const_cast<std::byte*>(message.data()), message.size());
    lock.unlock();
    (void)connection_->send({.header = {},
                             .buffers = {message},
                             .done =
                                 [this](const Status&) {
                                   const std::lock_guard own(mutex_);
                                   is_sent_ = true;
                                   changed_.notify_one();
                                 }},
                            60s);
    lock.lock();
    changed_.wait(lock, [this] { return is_sent_; });
  }
  std::size_t receive(std::span<std::byte>) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_answer_; });
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  MutableBytes target_;
  std::size_t answer_ = 0;
  bool has_answer_ = false, is_sent_ = false;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Connection> connection_;
};

Candidate candidate(const std::string& name, Medium medium) {
  return {
      name,
      [medium](const std::string& place, const std::function<void()>& listens) {
        serve(medium, place, listens);
      },
      [medium](const std::string& place) { return std::make_unique<OwnClient>(medium, place); }};
}

}  // namespace

std::vector<Candidate> own_candidates() {
  std::vector<Candidate> all = {candidate("tessera tcp", Medium::kTcp),
                                candidate("tessera shm", Medium::kSharedMemory)};
  if (Transport::has_medium(Medium::kUcx)) all.push_back(candidate("tessera ucx", Medium::kUcx));
  return all;
}

}  // namespace tessera::bench
