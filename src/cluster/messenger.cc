#include "cluster/messenger.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/deadline.h"
#include "base/guarded.h"
#include "cluster/errors.h"
#include "transport/shared_memory.h"
#include "transport/transport.h"

namespace tessera::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using transport::Connection;
using transport::IncomingHead;
using transport::IncomingMessage;
using transport::OutgoingMessage;
using transport::Placement;

constexpr std::size_t kQueueMax = 64;  // requests of a connection that wait; then no more are read
constexpr std::chrono::minutes kMessageTime{10};  // of a large package over a slow network

milliseconds time_left(TimePoint deadline) {
  return deadline == TimePoint::max() ? milliseconds::max() : time_until(deadline);
}

std::uint64_t body_bytes(const IncomingHead& head) {
  std::uint64_t all = 0;
  for (const std::uint64_t size : head.buffer_bytes) all += size;
  return all;
}

// A message as it came, the header understood; or why it was not.
struct Incoming {
  MessageKind kind = MessageKind::kRequest;
  std::uint64_t id = 0;
  Message message = {};
  std::optional<Error> refusal = {};
};

// Of one that was checked when its header came.
Incoming incoming_of(IncomingMessage message) {
  const auto header = parse_header(message.header, 0, {});
  if (!header.ok()) {
    return {.id = id_of_header(message.header), .refusal = header.error()};
  }
  Incoming incoming{.kind = header->kind, .id = header->id};
  incoming.message.text = header->text;
  if (header->text_is_piece && !message.buffers.empty()) {
    const auto text = message.buffers.back();
    incoming.message.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
    message.buffers.pop_back();
  }
  incoming.message.body = {std::move(message.buffers), std::move(message.memory)};
  return incoming;
}

// Whether the answer whose header came is understood.
Status check_answer(const IncomingHead& head) {
  TESSERA_TRY(const MessageHeader header, parse_header(head.header, body_bytes(head), {}));
  if (header.kind == MessageKind::kRequest) {
    return Error{ErrorCode::kInvalidArgument, "a request, where answers are expected"};
  }
  if (!header.text_is_piece) return {};
  if (!head.buffer_bytes.empty() && head.buffer_bytes.back() <= kTextPieceBytesMax) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      fmt::format("a text that is no piece or has more than {} bytes", kTextPieceBytesMax)};
}

// ---- the caller's side ----

class CallingChannel : public Channel {
 public:
  // Shared with the connection's callbacks, which may come before and after it is used.
  struct State {
    struct Waiting {
      std::condition_variable changed;
      bool is_sent = false;  // nobody reads the caller's bytes any more
      std::optional<Incoming> answer;
    };
    std::mutex mutex;                                           // of what follows
    std::map<std::uint64_t, std::shared_ptr<Waiting>> waiting;  // shared with calls
    std::uint64_t next_id = 1;
    bool is_open = true;
    std::string why;               // it has ended
    std::optional<Error> refusal;  // the peer is of another version: each call says so

    void answer(Incoming incoming) {
      const std::lock_guard lock(mutex);
      const auto found = waiting.find(incoming.id);
      if (found == waiting.end()) return;  // whoever asked has given up
      found->second->answer = std::move(incoming);
      found->second->changed.notify_all();
    }
    void refuse(const Error& error) {
      if (error.code != ErrorCode::kUnsupported) return;
      const std::lock_guard lock(mutex);
      refusal = error;
    }
    void end(const Error& error) {
      const std::lock_guard lock(mutex);
      is_open = false;
      why = error.message;
      for (const auto& [id, one] : waiting) one->changed.notify_all();
    }
  };

  static transport::Handlers handlers(const std::shared_ptr<State>& state) {
    return {.on_head = [state](Connection&, const IncomingHead& head) -> Result<Placement> {
              const Status checked = check_answer(head);
              if (checked.ok()) return Placement{};
              state->refuse(checked.error());
              return checked.error();
            },
            .on_message =
                [state](Connection&, IncomingMessage message) {
                  state->answer(incoming_of(std::move(message)));
                },
            .on_end = [state](Connection&, const Error& error) { state->end(error); }};
  }

  CallingChannel(std::shared_ptr<Connection> connection, std::shared_ptr<State> state,
                 std::string endpoint)
      : state_(std::move(state)),
        endpoint_(std::move(endpoint)),
        connection_(std::move(connection)) {}
  ~CallingChannel() override { connection_->close(); }

  bool is_open() const override {
    const std::lock_guard lock(state_->mutex);
    return state_->is_open;
  }
  void end() override { connection_->close(); }

  Result<Message> call(const std::string& text, Parts body, TimePoint deadline) override {
    const auto waiting = std::make_shared<State::Waiting>();
    std::uint64_t id = 0;
    {
      const std::lock_guard lock(state_->mutex);
      if (!state_->is_open) return ended();
      id = state_->next_id++;
      state_->waiting[id] = waiting;
    }
    OutgoingMessage message{.header = encode_header({MessageKind::kRequest, id, text}),
                            .buffers = {body.begin(), body.end()},
                            .done = [state = state_, waiting](const Status&) {
                              const std::lock_guard lock(state->mutex);
                              waiting->is_sent = true;
                              waiting->changed.notify_all();
                            }};
    const Status sent = connection_->send(std::move(message), time_left(deadline));
    std::unique_lock lock(state_->mutex);
    if (!sent.ok()) {
      state_->waiting.erase(id);
      if (sent.error().code != ErrorCode::kUnavailable) return sent.error();
      if (!state_->is_open) return ended();
      return unavailable(fmt::format("'{}': {}", endpoint_, sent.error().message));
    }
    wait(lock, *waiting, deadline);
    state_->waiting.erase(id);
    if (!waiting->answer.has_value()) {
      if (!state_->is_open) return ended();
      return unavailable(fmt::format("'{}' has not answered in time", endpoint_));
    }
    if (waiting->answer->kind == MessageKind::kError) {
      return parse_error_text(waiting->answer->message.text);
    }
    return std::move(waiting->answer->message);
  }

 private:
  // For the answer, the end or the deadline; and then until the bytes of the request are read no more.
  void wait(std::unique_lock<std::mutex>& lock, State::Waiting& waiting, TimePoint deadline) {
    const auto is_over = [&] { return waiting.answer.has_value() || !state_->is_open; };
    if (deadline == TimePoint::max()) {
      waiting.changed.wait(lock, is_over);
    } else {
      waiting.changed.wait_until(lock, deadline, is_over);
    }
    if (waiting.is_sent) return;
    if (!is_over()) {  // part of it may be on its way
      lock.unlock();
      connection_->close();
      lock.lock();
    }
    waiting.changed.wait(lock, [&] { return waiting.is_sent; });
  }

  // With the lock held.
  Error ended() const {
    if (state_->refusal.has_value()) {
      return Error(*state_->refusal).with_context(fmt::format("'{}'", endpoint_));
    }
    return unavailable(fmt::format("the connection to '{}' has ended: {}", endpoint_, state_->why));
  }

  const std::shared_ptr<State> state_;
  const std::string endpoint_;
  const std::shared_ptr<Connection> connection_;  // shared with the transport
};

// ---- the answering side ----

// A connection that came in. Its callbacks come on the transport's thread.
class ServedConnection {
 public:
  ServedConnection(std::shared_ptr<Connection> connection, std::uint64_t number,
                   Responder& responder)
      : connection_(std::move(connection)), number_(number), responder_(responder) {
    worker_ = std::thread([this] { work(); });
  }
  ~ServedConnection() { wait(); }

  void close() const { connection_->close(); }
  // Until its worker has ended, as it does with the connection.
  void wait() {
    if (worker_.joinable()) worker_.join();
  }
  bool is_over() const { return is_over_; }
  bool has_said_nothing_for(milliseconds time) const {
    return !has_spoken_ && steady_clock::now() - began_ > time;
  }

  Result<Placement> on_head(const IncomingHead& head) {
    has_spoken_ = true;
    const auto header = parse_header(head.header, body_bytes(head), responder_.limits(number_));
    if (!header.ok()) {
      // Who speaks another version is told so in an answer.
      if (header.error().code == ErrorCode::kUnsupported) return Placement{};
      return header.error();
    }
    if (header->kind == MessageKind::kRequest) return Placement{};
    return Error{ErrorCode::kInvalidArgument, "an answer, where requests are expected"};
  }
  void on_message(IncomingMessage message) {
    Incoming incoming = incoming_of(std::move(message));
    std::shared_ptr<void> admission = responder_.arrived(number_, incoming.message.text);
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(incoming), std::move(admission), steady_clock::now(), 0});
    changed_.notify_all();
  }
  void on_end() {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

 private:
  struct Queued {
    Incoming incoming;
    std::shared_ptr<void> admission;  // shared with nobody: it hides its type
    TimePoint received;
    std::size_t waiting = 0;  // behind it
  };

  std::optional<Queued> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return has_ended_ || !queue_.empty(); });
    if (has_ended_) {  // nobody would hear the answers
      queue_.clear();
      return std::nullopt;
    }
    Queued first = std::move(queue_.front());
    queue_.pop_front();
    first.waiting = queue_.size();
    return first;
  }

  void work() {
    while (auto queued = take()) {
      const std::uint64_t id = queued->incoming.id;
      auto reply = guarded("answering a request", [&]() -> Result<Reply> {
        if (queued->incoming.refusal.has_value()) return *queued->incoming.refusal;
        Message& message = queued->incoming.message;
        return responder_.handle({number_, std::move(message.text), std::move(message.body),
                                  std::move(queued->admission), queued->received, queued->waiting});
      });
      (void)guarded("", [&]() -> Status {
        if (!answer(id, std::move(reply))) close();
        return {};
      });
    }
    responder_.disconnected(number_);
    is_over_ = true;
  }

  bool answer(std::uint64_t id, Result<Reply> reply) const {
    Status sent = reply.ok() ? send_reply(id, std::move(*reply)) : Status(reply.error());
    if (!sent.ok() && !connection_->has_ended()) {
      // Its own error, or that it does not go into a message.
      sent = connection_->send(
          {.header = encode_header({MessageKind::kError, id, error_text(sent.error())}),
           .buffers = {},
           .done = {}},
          kForOne);
    }
    return sent.ok();
  }
  Status send_reply(std::uint64_t id, Reply reply) const {
    const auto kept = std::make_shared<Reply>(std::move(reply));  // shared with the connection
    const bool is_piece = kept->text.size() > MessageLimits{}.text_bytes;
    const MessageHeader header{.kind = MessageKind::kReply,
                               .id = id,
                               .text = is_piece ? std::string_view() : kept->text,
                               .text_is_piece = is_piece};
    OutgoingMessage message{.header = encode_header(header),
                            .buffers = {kept->body.begin(), kept->body.end()},
                            .done = [kept](const Status&) {}};
    if (is_piece) message.buffers.push_back(std::as_bytes(std::span(kept->text)));
    return connection_->send(std::move(message), kForOne);
  }

  static constexpr milliseconds kForOne{30'000};
  const std::shared_ptr<Connection> connection_;  // shared with the transport
  const std::uint64_t number_;
  Responder& responder_;
  const TimePoint began_ = steady_clock::now();
  std::atomic<bool> has_spoken_ = false, is_over_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool has_ended_ = false;
  std::thread worker_;
};

// What a server shares with the transport's callbacks.
class Served {
 public:
  explicit Served(const MessageServerOptions& options) : options_(options) {}

  transport::Handlers take(const std::shared_ptr<Connection>& connection) {
    std::shared_ptr<ServedConnection> made;
    (void)guarded("", [&]() -> Status {  // the system has no thread or memory left
      const std::lock_guard lock(mutex_);
      std::erase_if(connections_, [](const auto& one) { return one->is_over(); });
      if (is_ending_ || is_full()) return {};
      made = std::make_shared<ServedConnection>(connection, next_number_, *options_.responder);
      ++next_number_;
      connections_.push_back(made);
      return {};
    });
    if (made == nullptr) {
      connection->close();
      return {};
    }
    return {
        .on_head = [made](Connection&, const IncomingHead& head) { return made->on_head(head); },
        .on_message = [made](Connection&,
                             IncomingMessage message) { made->on_message(std::move(message)); },
        .on_end = [made](Connection&, const Error&) { made->on_end(); }};
  }

  // Waits for what is worked on.
  void end() {
    std::vector<std::shared_ptr<ServedConnection>> all;
    {
      const std::lock_guard lock(mutex_);
      is_ending_ = true;
      all.swap(connections_);
    }
    for (const auto& one : all) one->close();
    for (const auto& one : all) one->wait();
  }

 private:
  bool is_full() const {
    if (connections_.size() < options_.connections_max) return false;
    for (const auto& one : connections_) {
      if (one->has_said_nothing_for(options_.first_message_time)) one->close();
    }
    return true;
  }

  const MessageServerOptions options_;
  std::mutex mutex_;                                            // of what follows
  std::vector<std::shared_ptr<ServedConnection>> connections_;  // shared with callbacks
  std::uint64_t next_number_ = 1;
  bool is_ending_ = false;
};

class TransportServer : public MessageServer {
 public:
  explicit TransportServer(const MessageServerOptions& options)
      : served_(std::make_shared<Served>(options)) {}
  ~TransportServer() override {
    listeners_.clear();
    served_->end();
  }

  Status listen(transport::Transport& on, const transport::Address& address) {
    auto listening = on.listen(
        address, [served = served_](const auto& connection) { return served->take(connection); });
    if (!listening.ok()) {
      if (listening.error().code != ErrorCode::kUnavailable) return listening.error();
      return unavailable(fmt::format("cannot listen at {}: {}; port 0 takes any that is free",
                                     address.to_string(), listening.error().message));
    }
    const transport::Address& at = (*listening)->address();
    if (at.medium == transport::Medium::kTcp) port_ = at.port;
    if (at.medium == transport::Medium::kUcx) ucx_port_ = at.port;
    if (at.medium == transport::Medium::kSharedMemory) shared_memory_ = at.host;
    listeners_.push_back(std::move(*listening));
    return {};
  }
  int port() const override { return port_; }
  int ucx_port() const override { return ucx_port_; }
  std::string shared_memory() const override { return shared_memory_; }

 private:
  const std::shared_ptr<Served> served_;  // shared with callbacks
  std::vector<std::unique_ptr<transport::Listener>> listeners_;
  int port_ = 0, ucx_port_ = 0;
  std::string shared_memory_;
};

class TransportMessenger : public Messenger {
 public:
  explicit TransportMessenger(std::unique_ptr<transport::Transport> transport)
      : transport_(std::move(transport)) {}

  Result<std::unique_ptr<Channel>> open(const std::string& endpoint, TimePoint deadline) override {
    const bool has_medium = endpoint.starts_with("tcp:") || endpoint.starts_with("shm:") ||
                            endpoint.starts_with("ucx:");
    const auto address = transport::parse_address(has_medium ? endpoint : "tcp:" + endpoint);
    if (!address.ok()) return address.error();
    return guarded("opening a connection", [&]() -> Result<std::unique_ptr<Channel>> {
      const auto state = std::make_shared<CallingChannel::State>();
      auto made =
          transport_->connect(*address, CallingChannel::handlers(state), time_left(deadline));
      if (!made.ok()) {
        if (made.error().code != ErrorCode::kUnavailable) return made.error();
        return unavailable(
            fmt::format("nobody answers at '{}': {}", endpoint, made.error().message));
      }
      return std::unique_ptr<Channel>(
          std::make_unique<CallingChannel>(std::move(*made), state, endpoint));
    });
  }

  Result<std::unique_ptr<MessageServer>> serve(const MessageServerOptions& options) override {
    using transport::Medium;
    auto server = std::make_unique<TransportServer>(options);
    TESSERA_RETURN_IF_ERROR(
        server->listen(*transport_, {Medium::kTcp, options.address, options.port}));
    if (!options.shared_memory_folder.empty()) {
      // Named by the port: who follows at it takes the place over.
      const std::string beginning = fmt::format("tessera-{}-", ::geteuid());
      transport::remove_dead_sockets(options.shared_memory_folder, beginning);
      const std::string path =
          fmt::format("{}/{}{}", options.shared_memory_folder, beginning, server->port());
      TESSERA_RETURN_IF_ERROR(server->listen(*transport_, {Medium::kSharedMemory, path}));
    }
    if (options.ucx) {
      TESSERA_RETURN_IF_ERROR(server->listen(*transport_, {Medium::kUcx, options.address, 0}));
    }
    return std::unique_ptr<MessageServer>(std::move(server));
  }

 private:
  const std::unique_ptr<transport::Transport> transport_;
};

}  // namespace

std::string machine_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  file >> name;
  return name;
}

Result<std::unique_ptr<Messenger>> Messenger::create(const MessengerOptions& options) {
  transport::TransportOptions of_transport;
  transport::Limits& limits = of_transport.limits;
  limits.header_bytes = kMessageHeadBytes + MessageLimits{}.text_bytes;
  limits.message_bytes = MessageLimits{}.body_bytes;
  limits.buffers = std::size_t{1} << 16;
  limits.held_messages = kQueueMax;
  limits.message_time = kMessageTime;
  limits.handshake_time = options.handshake_time;
  limits.progress_time = options.progress_time;
  limits.silence_time = options.silence_time;
  of_transport.tls = options.tls;
  of_transport.allow_plain_network = options.allow_plain_network;
  if (options.audit) {
    of_transport.on_refused = [audit = options.audit](const transport::Peer& peer,
                                                      const Error& why) {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      audit({{"unix_ms", std::chrono::duration_cast<milliseconds>(now).count()},
             {"action", "connect"},
             {"tenant", "?"},
             {"peer", peer.address.to_string()},
             {"certificate", peer.certificate_name},
             {"outcome", "refused"},
             {"reason", why.message}});
    };
  }
  return guarded("starting a messenger", [&]() -> Result<std::unique_ptr<Messenger>> {
    TESSERA_TRY(auto made, transport::Transport::create(std::move(of_transport)));
    return std::unique_ptr<Messenger>(std::make_unique<TransportMessenger>(std::move(made)));
  });
}

}  // namespace tessera::cluster
