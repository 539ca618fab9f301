#include "transport/transport.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/deadline.h"
#include "transport/shared_memory.h"
#include "transport/stream_connection.h"
#include "transport/tcp.h"
#include "transport/tls.h"
#include "transport/ucx.h"

namespace tessera::transport {
namespace {

constexpr std::size_t kPooledBytesMax = std::size_t{256} << 20;

// What the transport shares with its listeners and connections, which may outlive it.
struct Shared {
  TransportOptions options;
  std::unique_ptr<TlsContext> tls;
  std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>(kPooledBytesMax);
};

Milliseconds tick_of(const Limits& limits) {
  const Milliseconds shortest = std::min(
      {limits.handshake_time, limits.progress_time, limits.message_time, limits.silence_time / 3});
  return std::clamp(shortest / 4, Milliseconds(5), Milliseconds(250));
}

Error plain_network(const Address& address) {
  return {ErrorCode::kInvalidArgument,
          fmt::format("{}: not loopback, and without TLS; give certificates, or allow the plain "
                      "network by name",
                      address.to_string())};
}

// What becomes of a stream that came in. On the loop's thread.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  Acceptor(std::shared_ptr<Loop> loop, std::shared_ptr<Shared> shared,
           Transport::OnConnection on_connection)
      : loop_(std::move(loop)),
        shared_(std::move(shared)),
        on_connection_(std::move(on_connection)) {}

  bool is_full() const { return *count_ >= shared_->options.limits.connections; }
  void stop() { on_connection_ = nullptr; }
  const Shared& shared() const { return *shared_; }

  void take(std::unique_ptr<ByteStream> stream) {
    if (is_full()) return;
    ++*count_;
    const auto on_open = [weak = weak_from_this()](const std::shared_ptr<StreamConnection>& from) {
      const auto self = weak.lock();
      if (self && self->on_connection_) return self->on_connection_(from);
      from->close();
      return Handlers{};
    };
    const auto connection = std::make_shared<StreamConnection>(
        StreamConnection::Parts{.loop = loop_,
                                .pool = shared_->pool,
                                .limits = shared_->options.limits,
                                .stream = std::move(stream),
                                .on_open = on_open,
                                .on_closed = [count = count_] { --*count; },
                                .on_refused = shared_->options.on_refused});
    connection->start();
  }

 private:
  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<Shared> shared_;
  Transport::OnConnection on_connection_;
  // Shared with the connections, which may outlive the listener.
  const std::shared_ptr<std::atomic<std::size_t>> count_ =
      std::make_shared<std::atomic<std::size_t>>(0);
};

// Accepts on the loop's thread.
class StreamListener : public Pollable, public std::enable_shared_from_this<StreamListener> {
 public:
  StreamListener(std::shared_ptr<Loop> loop, std::shared_ptr<Acceptor> acceptor, Descriptor socket,
                 Address address)
      : loop_(std::move(loop)),
        acceptor_(std::move(acceptor)),
        socket_(std::move(socket)),
        address_(std::move(address)) {}

  void start() { id_ = loop_->add(shared_from_this(), {socket_.get()}); }
  void stop() {
    loop_->remove(id_);
    on_loop_end();
  }
  const Address& address() const { return address_; }

  bool on_ready() override {
    for (int i = 0; i < 64; ++i) {
      Accepted accepted = accept_tcp(socket_.get());
      if (accepted.descriptor.get() < 0) {
        has_no_descriptors_ = errno == EMFILE || errno == ENFILE;
        return false;
      }
      if (!acceptor_->is_full()) take(std::move(accepted));
    }
    return true;
  }
  void on_tick(Clock::time_point) override {
    if (std::exchange(has_no_descriptors_, false)) loop_->call_soon(id_);
  }
  void on_loop_end() override {
    socket_ = Descriptor();
    acceptor_->stop();
  }

 private:
  void take(Accepted accepted) {
    std::unique_ptr<ByteStream> stream;
    if (address_.medium == Medium::kSharedMemory) {
      Result<std::unique_ptr<ByteStream>> shared =
          share_memory(std::move(accepted.descriptor), address_.host);
      if (!shared.ok()) return;  // the peer sees that the socket is closed
      stream = std::move(shared).value();
    } else {
      Peer peer{.address = accepted.address};
      const int descriptor = accepted.descriptor.release();
      const auto& tls = acceptor_->shared().tls;
      stream = tls ? tls->server(descriptor, std::move(peer))
                   : socket_stream(descriptor, std::move(peer));
    }
    acceptor_->take(std::move(stream));
  }

  const std::shared_ptr<Loop> loop_;
  const std::shared_ptr<Acceptor> acceptor_;  // shared with UCX's callbacks, or nobody
  Descriptor socket_;
  const Address address_;
  Loop::Id id_ = 0;
  bool has_no_descriptors_ = false;
};

class ListenerHandle : public Listener {
 public:
  ListenerHandle(std::weak_ptr<Loop> loop, std::shared_ptr<StreamListener> listener)
      : loop_(std::move(loop)), listener_(std::move(listener)), address_(listener_->address()) {}
  ~ListenerHandle() override {
    if (address_.medium == Medium::kSharedMemory) remove_socket(address_.host);
    if (const auto loop = loop_.lock()) loop->post([listener = listener_] { listener->stop(); });
  }
  const Address& address() const override { return address_; }

 private:
  const std::weak_ptr<Loop> loop_;
  const std::shared_ptr<StreamListener> listener_;  // shared with the loop
  const Address address_;
};

class UcxHandle : public Listener {
 public:
  UcxHandle(std::weak_ptr<Loop> loop, std::shared_ptr<Acceptor> acceptor,
            std::unique_ptr<Ucx::Listening> listening)
      : loop_(std::move(loop)), acceptor_(std::move(acceptor)), listening_(std::move(listening)) {}
  ~UcxHandle() override {
    listening_ = nullptr;
    if (const auto loop = loop_.lock()) loop->post([acceptor = acceptor_] { acceptor->stop(); });
  }
  const Address& address() const override { return listening_->address(); }

 private:
  const std::weak_ptr<Loop> loop_;
  const std::shared_ptr<Acceptor> acceptor_;  // shared with UCX's callbacks
  std::unique_ptr<Ucx::Listening> listening_;
};

class StreamTransport : public Transport {
 public:
  explicit StreamTransport(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        loop_(std::make_shared<Loop>(tick_of(shared_->options.limits))) {}
  ~StreamTransport() override {
    loop_->stop();
    if (ucx_) ucx_->finish();
  }

  Result<std::shared_ptr<Connection>> connect(const Address& address, Handlers handlers,
                                              Milliseconds timeout) override {
    const Clock::time_point deadline = deadline_after(timeout);
    TESSERA_TRY(std::unique_ptr<ByteStream> stream, open_stream(address, deadline));
    const auto connection = std::make_shared<StreamConnection>(StreamConnection::Parts{
        .loop = loop_,
        .pool = shared_->pool,
        .limits = shared_->options.limits,
        .stream = std::move(stream),
        .on_open = [given = std::move(handlers)](const auto&) { return given; },
        .on_closed = {}});
    loop_->post([connection] { connection->start(); });
    const Status opened = connection->wait_until_open(deadline);
    if (!opened.ok()) {
      connection->close();
      return opened.error().with_context("connect to " + address.to_string());
    }
    // The handle ends it, and then waits for callbacks that run.
    return std::shared_ptr<Connection>(connection.get(), [connection](Connection*) {
      connection->close();
      connection->wait_until_ended();
    });
  }

  Result<std::unique_ptr<Listener>> listen(const Address& address,
                                           OnConnection on_connection) override {
    const auto acceptor = std::make_shared<Acceptor>(loop_, shared_, std::move(on_connection));
    if (address.medium == Medium::kUcx) return listen_ucx(address, acceptor);
    Descriptor socket;
    Address own = address;
    if (address.medium == Medium::kSharedMemory) {
      TESSERA_TRY(socket, listen_at(address.host));
    } else {
      if (shared_->options.tls && shared_->options.tls->certificate.empty()) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("{}: who listens with TLS needs a certificate and its key",
                                 address.to_string())};
      }
      TESSERA_TRY(TcpSocket listening, listen_tcp(address));
      if (!listening.is_loopback && !may_use_network()) return plain_network(address);
      socket = std::move(listening.descriptor);
      own = listening.address;
    }
    const auto listener = std::make_shared<StreamListener>(loop_, acceptor, std::move(socket), own);
    loop_->post([listener] { listener->start(); });
    return std::unique_ptr<Listener>(std::make_unique<ListenerHandle>(loop_, listener));
  }

 private:
  // UCX has no TLS.
  Status check_ucx(const Address& address) const {
    if (shared_->options.allow_plain_network) return {};
    TESSERA_TRY(const bool is_own_machine, is_loopback(address));
    if (is_own_machine) return {};
    return plain_network(address);
  }

  // Started at the first use.
  Result<std::shared_ptr<Ucx>> ucx(const Address& address) {
    const std::lock_guard lock(ucx_mutex_);
    if (ucx_) return ucx_;
    Result<std::shared_ptr<Ucx>> made = Ucx::make(loop_);
    if (!made.ok()) return made.error().with_context(address.to_string());
    ucx_ = std::move(made).value();
    return ucx_;
  }

  Result<std::unique_ptr<Listener>> listen_ucx(const Address& address,
                                               const std::shared_ptr<Acceptor>& acceptor) {
    TESSERA_TRY(const std::shared_ptr<Ucx> ucx, this->ucx(address));
    TESSERA_RETURN_IF_ERROR(check_ucx(address));
    TESSERA_TRY(std::unique_ptr<Ucx::Listening> listening,
                ucx->listen(address, [acceptor](std::unique_ptr<ByteStream> stream) {
                  acceptor->take(std::move(stream));
                }));
    return std::unique_ptr<Listener>(
        std::make_unique<UcxHandle>(loop_, acceptor, std::move(listening)));
  }

  bool may_use_network() const { return shared_->tls || shared_->options.allow_plain_network; }

  Result<std::unique_ptr<ByteStream>> open_stream(const Address& address,
                                                  Clock::time_point deadline) {
    if (address.medium == Medium::kUcx) {
      TESSERA_TRY(const std::shared_ptr<Ucx> ucx, this->ucx(address));
      TESSERA_RETURN_IF_ERROR(check_ucx(address));
      return ucx->connect(address);
    }
    if (address.medium == Medium::kSharedMemory) return join_memory(address.host, deadline);
    TESSERA_TRY(const bool is_own_machine, is_loopback(address));
    if (!is_own_machine && !may_use_network()) return plain_network(address);
    TESSERA_TRY(TcpSocket socket, connect_tcp(address, deadline));
    Peer peer{.address = socket.address};
    const int descriptor = socket.descriptor.release();
    if (!shared_->tls) return socket_stream(descriptor, std::move(peer));
    const std::string& name = shared_->options.server_name;
    return shared_->tls->client(descriptor, std::move(peer), name.empty() ? address.host : name);
  }

  const std::shared_ptr<Shared> shared_;
  const std::shared_ptr<Loop> loop_;  // shared with connections and listeners
  std::mutex ucx_mutex_;
  std::shared_ptr<Ucx> ucx_;  // shared with calls that run
};

}  // namespace

Result<std::unique_ptr<Transport>> Transport::create(TransportOptions options) {
  const auto shared = std::make_shared<Shared>();
  if (options.tls) {
    TESSERA_TRY(shared->tls, TlsContext::make(*options.tls));
  }
  shared->options = std::move(options);
  return std::unique_ptr<Transport>(std::make_unique<StreamTransport>(shared));
}

bool Transport::has_medium(Medium medium) { return medium != Medium::kUcx || Ucx::is_built(); }

}  // namespace tessera::transport
