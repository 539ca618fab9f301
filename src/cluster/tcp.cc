#include "cluster/tcp.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/guarded.h"

namespace tessera::cluster {
namespace {

using std::chrono::steady_clock;

Error unavailable(std::string message) { return {ErrorCode::kUnavailable, std::move(message)}; }
std::string reason() { return std::strerror(errno); }

// A descriptor that is closed at its end.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }
  // Who reads or writes it finds the end; the descriptor stays taken.
  void end() const { ::shutdown(descriptor_, SHUT_RDWR); }

 private:
  int descriptor_;
};

// Small messages go out at once; a peer whose machine is gone is noticed in a few seconds.
void prepare(int descriptor) {
  const int on = 1, idle = 2, interval = 1, probes = 3, unanswered_ms = 10000;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof unanswered_ms);
}

// Milliseconds until then, for poll().
int patience(TimePoint deadline) {
  if (deadline == TimePoint::max()) return -1;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1 << 30));
}

bool wait_for(int descriptor, short events, TimePoint deadline) {
  pollfd entry{descriptor, events, 0};
  for (;;) {
    const int ready = ::poll(&entry, 1, patience(deadline));
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

// All of it; false: the connection has ended, or it was not over by then.
bool write_all(int descriptor, std::vector<iovec> pieces, TimePoint deadline) {
  std::size_t first = 0;
  while (first < pieces.size()) {
    constexpr std::size_t kPiecesMax = 64;
    msghdr message{};
    message.msg_iov = pieces.data() + first;
    message.msg_iovlen = std::min(pieces.size() - first, kPiecesMax);
    ssize_t sent = ::sendmsg(descriptor, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!wait_for(descriptor, POLLOUT, deadline)) return false;
      continue;
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return false;
    for (auto left = static_cast<std::size_t>(sent); first < pieces.size();) {
      iovec& piece = pieces[first];
      const std::size_t taken = std::min(left, piece.iov_len);
      piece.iov_base = static_cast<char*>(piece.iov_base) + taken;
      piece.iov_len -= taken;
      left -= taken;
      if (piece.iov_len > 0) break;
      ++first;
    }
  }
  return true;
}

// All of it; false: the connection has ended, or it was not over by then.
bool read_all(int descriptor, void* to, std::size_t size, TimePoint deadline) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    if (deadline != TimePoint::max() && !wait_for(descriptor, POLLIN, deadline)) return false;
    const ssize_t got = ::recv(descriptor, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

struct ReadTimes {
  TimePoint begins_by = TimePoint::max();
  std::chrono::milliseconds each = std::chrono::milliseconds::max();  // max(): however long
  TimePoint from_now() const {
    return each == std::chrono::milliseconds::max() ? TimePoint::max() : steady_clock::now() + each;
  }
};

// A message whose head says many bytes has them only as they come.
bool read_body(int descriptor, std::vector<std::byte>& body, std::uint64_t size,
               const ReadTimes& times) {
  constexpr std::uint64_t kPiece = std::uint64_t{1} << 24;
  constexpr std::size_t kProgress = std::size_t{1} << 16;
  while (body.size() < size) {
    const std::size_t begin = body.size();
    const std::uint64_t more =
        std::min<std::uint64_t>(size - begin, std::max(kPiece, std::uint64_t{begin}));
    body.resize(begin + more);
    for (std::size_t at = begin; at < body.size();) {
      const std::size_t part = std::min(body.size() - at, kProgress);
      if (!read_all(descriptor, body.data() + at, part, times.from_now())) return false;
      at += part;
    }
  }
  return true;
}

struct Incoming {
  MessageHead head;
  Message message;
};
std::optional<Incoming> read_message(int descriptor, const std::function<MessageLimits()>& limits,
                                     const ReadTimes& times) {
  std::array<std::byte, kMessageHeadBytes> bytes{};
  if (!read_all(descriptor, bytes.data(), 1, times.begins_by)) return std::nullopt;
  const TimePoint deadline = std::min(times.begins_by, times.from_now());
  if (!read_all(descriptor, bytes.data() + 1, bytes.size() - 1, deadline)) return std::nullopt;
  const auto head = parse_head(bytes, limits());
  if (!head.ok()) return std::nullopt;
  Incoming incoming{*head, {}};
  incoming.message.text.resize(head->text_bytes);
  if (!read_all(descriptor, incoming.message.text.data(), head->text_bytes, deadline)) {
    return std::nullopt;
  }
  if (!read_body(descriptor, incoming.message.body, head->body_bytes, times)) return std::nullopt;
  return incoming;
}

iovec piece_of(const void* at, std::size_t size) { return {const_cast<void*>(at), size}; }

bool write_message(int descriptor, MessageHead head, const std::string& text, Parts body,
                   TimePoint deadline) {
  head.text_bytes = static_cast<std::uint32_t>(text.size());
  for (const auto part : body) head.body_bytes += part.size();
  const auto bytes = encode_head(head);
  std::vector<iovec> pieces = {piece_of(bytes.data(), bytes.size()),
                               piece_of(text.data(), text.size())};
  for (const auto part : body) {
    if (!part.empty()) pieces.push_back(piece_of(part.data(), part.size()));
  }
  return write_all(descriptor, std::move(pieces), deadline);
}

// ---- the caller's side ----

class TcpChannel : public Channel {
 public:
  TcpChannel(Socket socket, std::string endpoint)
      : socket_(std::move(socket)), endpoint_(std::move(endpoint)) {
    reader_ = std::thread([this] { read(); });
  }
  ~TcpChannel() override {
    socket_.end();
    reader_.join();
  }

  bool is_open() const override { return open_; }
  void end() override { socket_.end(); }

  Result<Message> call(const std::string& text, Parts body, TimePoint deadline) override {
    Waiting waiting;
    std::uint64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!open_) return ended();
      id = next_id_++;
      waiting_[id] = &waiting;
    }
    if (!send(id, text, body, deadline)) {
      socket_.end();  // part of a message may be on its way
      forget(id);
      return ended();
    }
    std::unique_lock lock(mutex_);
    const auto over = [&] { return waiting.answer.has_value() || !open_; };
    if (deadline == TimePoint::max()) {
      waiting.changed.wait(lock, over);
    } else {
      waiting.changed.wait_until(lock, deadline, over);
    }
    waiting_.erase(id);
    if (!waiting.answer.has_value()) {
      if (!open_) return ended();
      return unavailable(fmt::format("'{}' has not answered in time", endpoint_));
    }
    if (waiting.answer->head.kind == MessageKind::kError) {
      return parse_error_text(waiting.answer->message.text);
    }
    return std::move(waiting.answer->message);
  }

 private:
  struct Waiting {
    std::condition_variable changed;
    std::optional<Incoming> answer;
  };

  bool send(std::uint64_t id, const std::string& text, Parts body, TimePoint deadline) {
    const std::lock_guard lock(sending_);
    return write_message(socket_.get(), {.kind = MessageKind::kRequest, .id = id}, text, body,
                         deadline);
  }
  void forget(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    waiting_.erase(id);
  }
  Error ended() const {
    return unavailable(fmt::format("the connection to '{}' has ended", endpoint_));
  }

  void read() {
    for (;;) {
      std::optional<Incoming> incoming;
      (void)guarded("", [&]() -> Status {
        incoming = read_message(socket_.get(), [] { return MessageLimits{}; }, {});
        return {};
      });
      const std::lock_guard lock(mutex_);
      if (!incoming.has_value()) break;
      const auto found = waiting_.find(incoming->head.id);
      if (found == waiting_.end()) continue;  // whoever asked has given up
      found->second->answer = std::move(incoming);
      found->second->changed.notify_all();
    }
    const std::lock_guard lock(mutex_);
    open_ = false;
    for (const auto& [id, waiting] : waiting_) waiting->changed.notify_all();
  }

  const Socket socket_;
  const std::string endpoint_;
  std::mutex sending_;  // one message at a time
  std::mutex mutex_;    // of what follows
  std::map<std::uint64_t, Waiting*> waiting_;
  std::uint64_t next_id_ = 1;
  std::atomic<bool> open_ = true;
  std::thread reader_;
};

struct Addresses {
  addrinfo* first = nullptr;
  Addresses() = default;
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() {
    if (first != nullptr) ::freeaddrinfo(first);
  }
};

// "HOST:PORT" or "[V6]:PORT".
Status resolve(const std::string& endpoint, Addresses& addresses) {
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == endpoint.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("'{}' is no address; allowed is HOST:PORT", endpoint)};
  }
  std::string host = endpoint.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  const int failed =
      ::getaddrinfo(host.c_str(), endpoint.c_str() + colon + 1, &hints, &addresses.first);
  if (failed == 0) return {};
  return unavailable(fmt::format("'{}' is not found: {}", endpoint, ::gai_strerror(failed)));
}

class TcpDialer : public Dialer {
 public:
  Result<std::unique_ptr<Channel>> open(const std::string& endpoint, TimePoint deadline) override {
    Addresses addresses;
    TESSERA_RETURN_IF_ERROR(resolve(endpoint, addresses));
    std::string why = "it has no address";
    for (const addrinfo* one = addresses.first; one != nullptr; one = one->ai_next) {
      Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (socket.get() < 0 || !connect(socket.get(), *one, deadline)) {
        why = reason();
        continue;
      }
      prepare(socket.get());
      ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) & ~O_NONBLOCK);
      return guarded("opening a connection", [&]() -> Result<std::unique_ptr<Channel>> {
        return std::unique_ptr<Channel>(std::make_unique<TcpChannel>(std::move(socket), endpoint));
      });
    }
    return unavailable(fmt::format("nobody answers at '{}': {}", endpoint, why));
  }

 private:
  static bool connect(int descriptor, const addrinfo& to, TimePoint deadline) {
    if (::connect(descriptor, to.ai_addr, to.ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS) return false;
    if (!wait_for(descriptor, POLLOUT, deadline)) {
      errno = ETIMEDOUT;
      return false;
    }
    int failed = 0;
    socklen_t size = sizeof failed;
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failed, &size);
    errno = failed;
    return failed == 0;
  }
};

// ---- the answering side ----

class Connection {
 public:
  Connection(Socket socket, std::uint64_t number, const TcpServerOptions& options)
      : socket_(std::move(socket)), number_(number), options_(options) {
    worker_ = std::thread([this] { work(); });
    try {
      reader_ = std::thread([this] { read(); });
    } catch (...) {  // the system has none left
      close();
      worker_.join();
      throw;
    }
  }
  ~Connection() {
    end();
    if (reader_.joinable()) reader_.join();
    if (worker_.joinable()) worker_.join();
  }
  void end() const { socket_.end(); }
  bool is_over() const { return over_; }

 private:
  void read() {
    ReadTimes times{steady_clock::now() + options_.first_message_time, options_.message_time};
    for (;;) {
      std::optional<Incoming> incoming;
      (void)guarded("", [&]() -> Status {
        incoming = read_message(
            socket_.get(), [this] { return options_.responder->limits(number_); }, times);
        return {};
      });
      times.begins_by = TimePoint::max();
      std::unique_lock lock(mutex_);
      if (!incoming.has_value() || incoming->head.kind != MessageKind::kRequest) break;
      changed_.wait(lock, [this] { return queue_.size() < options_.queue_max; });
      queue_.push_back(std::move(*incoming));
      changed_.notify_all();
    }
    close();  // a peer whose message was refused learns it
  }

  void close() {
    end();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  std::optional<Incoming> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ended_ || !queue_.empty(); });
    if (ended_) {  // nobody would hear the answers
      queue_.clear();
      changed_.notify_all();
      return std::nullopt;
    }
    Incoming first = std::move(queue_.front());
    queue_.pop_front();
    changed_.notify_all();
    return first;
  }

  void work() {
    while (auto incoming = take()) {
      const std::uint64_t id = incoming->head.id;
      auto reply = guarded("answering a request", [&] {
        return options_.responder->handle(
            {number_, std::move(incoming->message.text), std::move(incoming->message.body)});
      });
      (void)guarded("", [&]() -> Status {
        if (!answer(id, reply)) end();
        return {};
      });
    }
    options_.responder->disconnected(number_);
    over_ = true;
  }

  bool answer(std::uint64_t id, const Result<Reply>& reply) const {
    constexpr std::chrono::seconds kForOne{30};
    const TimePoint deadline = steady_clock::now() + kForOne;
    if (!reply.ok()) {
      return write_message(socket_.get(), {.kind = MessageKind::kError, .id = id},
                           error_text(reply.error()), {}, deadline);
    }
    std::vector<std::span<const std::byte>> parts(reply->body.begin(), reply->body.end());
    return write_message(socket_.get(), {.kind = MessageKind::kReply, .id = id}, reply->text, parts,
                         deadline);
  }

  const Socket socket_;
  const std::uint64_t number_;
  const TcpServerOptions& options_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Incoming> queue_;
  bool ended_ = false;
  std::atomic<bool> over_ = false;
  std::thread reader_, worker_;
};

class TcpServerImplementation : public TcpServer {
 public:
  TcpServerImplementation(Socket socket, int port, const TcpServerOptions& options)
      : options_(options), socket_(std::move(socket)), port_(port) {
    acceptor_ = std::thread([this] { accept(); });
  }
  ~TcpServerImplementation() override {
    stopping_ = true;
    socket_.end();
    acceptor_.join();
    for (const auto& one : connections_) one->end();
    connections_.clear();
  }
  int port() const override { return port_; }

 private:
  void accept() {
    while (!stopping_) {
      const int descriptor = ::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (descriptor < 0) {
        // Out of descriptors, say: others give some back.
        if (!stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        continue;
      }
      Socket socket(descriptor);
      std::erase_if(connections_, [](const auto& one) { return one->is_over(); });
      if (connections_.size() >= options_.connections_max) continue;
      (void)guarded("", [&]() -> Status {
        prepare(descriptor);
        connections_.push_back(
            std::make_unique<Connection>(std::move(socket), next_number_++, options_));
        return {};
      });
    }
  }

  const TcpServerOptions options_;
  const Socket socket_;
  const int port_;
  std::atomic<bool> stopping_ = false;
  std::list<std::unique_ptr<Connection>> connections_;  // of the acceptor's thread
  std::uint64_t next_number_ = 1;
  std::thread acceptor_;
};

int port_of(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace

std::unique_ptr<Dialer> make_tcp_dialer() { return std::make_unique<TcpDialer>(); }

Result<std::unique_ptr<TcpServer>> TcpServer::start(const TcpServerOptions& options) {
  const bool is_v6 = options.address.find(':') != std::string::npos;
  const std::string endpoint =
      fmt::format("{}{}{}:{}", is_v6 ? "[" : "", options.address, is_v6 ? "]" : "", options.port);
  Addresses addresses;
  TESSERA_RETURN_IF_ERROR(resolve(endpoint, addresses));
  Socket socket(::socket(addresses.first->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (socket.get() < 0 ||
      ::bind(socket.get(), addresses.first->ai_addr, addresses.first->ai_addrlen) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    return unavailable(
        fmt::format("cannot listen at {}: {}; port 0 takes any that is free", endpoint, reason()));
  }
  const int port = port_of(socket.get());
  return guarded("starting a server", [&]() -> Result<std::unique_ptr<TcpServer>> {
    return std::unique_ptr<TcpServer>(
        std::make_unique<TcpServerImplementation>(std::move(socket), port, options));
  });
}

}  // namespace tessera::cluster
