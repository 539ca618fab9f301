#include "http/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <future>
#include <map>
#include <thread>
#include <utility>

#include "http/connection.h"

// What fails here ends or delays a connection, as the comments say, and nothing else follows from it.
// NOLINTBEGIN(bugprone-empty-catch,bugprone-unused-return-value,bugprone-unhandled-exception-at-new)

namespace tessera::http {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

constexpr milliseconds kBetweenDeadlines{50};  // how late a deadline may be noticed
constexpr milliseconds kAfterFailure{50};      // before what failed is tried again

Error cannot_listen(const ServerOptions& options, const std::string& why) {
  return {ErrorCode::kUnavailable,
          fmt::format("cannot listen at {}:{}: {}; port 0 takes any that is free", options.address,
                      options.port, why)};
}

Error no_server(const char* why) {
  return {
      ErrorCode::kUnavailable,
      fmt::format("the system has no thread, memory or file descriptor for a server ({}); close "
                  "files, or allow more (ulimit -n, -u)",
                  why)};
}

// Of certificate and key; null where there are none.
Result<std::unique_ptr<asio::ssl::context>> tls_context(const ServerOptions& options) {
  std::unique_ptr<asio::ssl::context> tls;
  if (options.certificate.empty()) return tls;
  tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SystemError error;
  tls->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1,
                   error);
  const auto wrong = [&](const char* what) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("the {} is none that TLS can use: {}; it is to be a PEM text", what,
                             error.message())};
  };
  tls->use_certificate_chain(asio::buffer(options.certificate), error);
  if (error) return wrong("certificate");
  tls->use_private_key(asio::buffer(options.key), asio::ssl::context::pem, error);
  if (error) return wrong("certificate's key");
  return tls;
}

// Programs that this one starts must not keep the port.
void close_on_exec(int descriptor) { fcntl(descriptor, F_SETFD, FD_CLOEXEC); }

}  // namespace

class ServerCore : public std::enable_shared_from_this<ServerCore> {
 public:
  // `tls` may be null.
  ServerCore(ServerOptions options, std::unique_ptr<asio::ssl::context> tls)
      : handler_(std::move(options.handler)),
        shared_{.limits = options.limits,
                .fields = std::move(options.fields),
                .handle =
                    [this](Request request, std::uint64_t connection, std::uint64_t number) {
                      handle(std::move(request), connection, number);
                    },
                .forget = [this](std::uint64_t connection) { connections_.erase(connection); },
                .tls = std::move(tls)} {}

  Status listen(const ServerOptions& options);
  int port() const { return acceptor_.local_endpoint().port(); }
  void run() noexcept;
  void stop() noexcept;
  void end_connections() noexcept;
  // From any thread but the server's.
  bool finish(milliseconds patience);
  // From any thread.
  void deliver(std::uint64_t connection, std::uint64_t request, Response response) noexcept;

 private:
  void handle(Request request, std::uint64_t connection, std::uint64_t number);
  void listen_at(const Tcp::endpoint& endpoint, int buffer_bytes);
  void accept();
  void on_accept(SystemError error, Tcp::socket socket);
  void accept_again_later();
  void give_up_accepting() noexcept;
  void admit(Tcp::socket socket);
  bool make_room();
  void refuse(Tcp::socket& socket);
  void watch_deadlines();

  const std::function<void(Request, Reply)> handler_;
  asio::io_context io_{1};
  Shared shared_;
  Tcp::acceptor acceptor_{io_};
  asio::steady_timer deadlines_{io_}, later_{io_};
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // shared with their callbacks
  std::uint64_t next_connection_ = 1;
  bool is_accepting_ = false, is_watching_ = false;  // a callback will come
  bool is_finishing_ = false;                        // finish()
  std::uint64_t accept_turn_ = 0;                    // callbacks of earlier ones count no more
  std::atomic<bool> stopping_ = false;
  std::atomic<std::thread::id> thread_{};
};

// Without SO_REUSEPORT: a second server at the same port is an error, not a lottery. What
// connections take for buffers they have from here.
void ServerCore::listen_at(const Tcp::endpoint& endpoint, int buffer_bytes) {
  acceptor_.close();
  acceptor_.open(endpoint.protocol());
  close_on_exec(acceptor_.native_handle());
  acceptor_.set_option(Tcp::acceptor::reuse_address(true));
  acceptor_.set_option(asio::socket_base::receive_buffer_size(buffer_bytes));
  acceptor_.set_option(asio::socket_base::send_buffer_size(buffer_bytes));
  acceptor_.bind(endpoint);
  acceptor_.listen(asio::socket_base::max_listen_connections);
  acceptor_.non_blocking(true);
}

Status ServerCore::listen(const ServerOptions& options) {
  SystemError error;
  Tcp::resolver resolver(io_);
  const auto places = resolver.resolve(options.address, std::to_string(options.port),
                                       Tcp::resolver::passive, error);
  for (const auto& place : places) {
    try {
      listen_at(place.endpoint(), static_cast<int>(options.limits.socket_buffer_bytes));
      return {};
    } catch (const boost::system::system_error& failed) {
      error = failed.code();
    }
  }
  if (error == asio::error::no_descriptors) return no_server(error.message().c_str());
  return cannot_listen(options, error == asio::error::address_in_use
                                    ? "the port is taken"
                                    : "the address is not of this machine, or not allowed (" +
                                          error.message() + ")");
}

void ServerCore::run() noexcept {
  thread_ = std::this_thread::get_id();
  const auto work = asio::make_work_guard(io_);
  while (!stopping_) {
    try {
      accept();
      watch_deadlines();
      io_.run();
    } catch (...) {
      // Memory ended where no connection was to blame. What was given up is begun again above.
      give_up_accepting();
    }
    if (stopping_) break;
    std::this_thread::sleep_for(kAfterFailure);
    io_.restart();
  }
}

void ServerCore::stop() noexcept {
  stopping_ = true;
  io_.stop();
}

void ServerCore::end_connections() noexcept {
  SystemError ignored;
  acceptor_.close(ignored);
  while (!connections_.empty()) {
    const std::shared_ptr<Connection> connection = connections_.begin()->second;
    connection->close();
  }
}

bool ServerCore::finish(milliseconds patience) {
  constexpr milliseconds kBetweenLooks{5};
  const Clock::time_point last = Clock::now() + patience;
  while (true) {
    const auto busy = std::make_shared<std::promise<bool>>();
    std::future<bool> answer = busy->get_future();
    asio::post(io_, [this, busy] {
      is_finishing_ = true;
      SystemError ignored;
      acceptor_.close(ignored);
      const Clock::time_point now = Clock::now();
      busy->set_value(std::ranges::any_of(connections_, [now](const auto& each) {
        return each.second->rank(now) >= Connection::kNever;
      }));
    });
    if (answer.wait_until(last) != std::future_status::ready) return false;
    if (!answer.get()) return true;
    if (Clock::now() >= last) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
}

void ServerCore::handle(Request request, std::uint64_t connection, std::uint64_t number) {
  try {
    handler_(std::move(request), Reply(weak_from_this(), connection, number));
  } catch (...) {
    // The reply went with the exception and answered 500.
  }
}

void ServerCore::deliver(std::uint64_t connection, std::uint64_t request,
                         Response response) noexcept {
  const auto send = [this, connection, request](Response answer) {
    const auto found = connections_.find(connection);
    if (found == connections_.end()) return;
    const std::shared_ptr<Connection> kept = found->second;
    kept->send(std::move(answer), request);
  };
  if (std::this_thread::get_id() == thread_.load()) return send(std::move(response));
  try {
    asio::post(io_, [send, answer = std::move(response)]() mutable { send(std::move(answer)); });
  } catch (...) {
    // After Limits::handler_time the client gets an answer that there is none.
  }
}

// An accept that threw between the system's call and ours has no callback any more.
void ServerCore::give_up_accepting() noexcept {
  SystemError ignored;
  acceptor_.cancel(ignored);
  ++accept_turn_;
  is_accepting_ = false;
}

void ServerCore::accept() {
  if (is_accepting_ || is_finishing_) return;
  acceptor_.async_accept([this, turn = accept_turn_](SystemError error, Tcp::socket socket) {
    if (turn != accept_turn_ || is_finishing_) return;
    is_accepting_ = false;
    on_accept(error, std::move(socket));
  });
  is_accepting_ = true;
}

void ServerCore::on_accept(SystemError error, Tcp::socket socket) {
  if (!error) {
    admit(std::move(socket));
    watch_deadlines();
  }
  if (!error || error == asio::error::connection_aborted) return accept();
  // No file descriptor or memory: idle connections release theirs, and no time is spent on
  // asking again and again.
  make_room();
  accept_again_later();
}

void ServerCore::accept_again_later() {
  later_.expires_after(kAfterFailure);
  later_.async_wait([this, turn = accept_turn_](SystemError) {
    if (turn != accept_turn_) return;
    is_accepting_ = false;
    accept();
  });
  is_accepting_ = true;
}

void ServerCore::admit(Tcp::socket socket) {
  try {
    if (connections_.size() >= shared_.limits.connections && !make_room()) return refuse(socket);
    close_on_exec(socket.native_handle());
    SystemError ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    const std::uint64_t id = next_connection_++;
    const auto connection = std::make_shared<Connection>(shared_, std::move(socket), id);
    connections_.emplace(id, connection);
    connection->start();
  } catch (...) {
    // No memory for a connection: its client finds it closed.
  }
}

// Ends a connection that does nothing for its client; false where there is none.
bool ServerCore::make_room() {
  const Clock::time_point now = Clock::now();
  std::shared_ptr<Connection> last;
  for (const auto& [id, each] : connections_) {
    if (each->rank(now) >= Connection::kNever) continue;
    const auto order = [now](const Connection& c) {
      return std::pair(c.rank(now), c.waiting_since());
    };
    if (last == nullptr || order(*each) < order(*last)) last = each;
  }
  if (last == nullptr) return false;
  last->close();
  return true;
}

void ServerCore::refuse(Tcp::socket& socket) {
  if (shared_.tls != nullptr) return;  // there is no word before the handshake
  const Response response = busy_response(
      fmt::format("{} connections are open and at work, no more are served; close one",
                  shared_.limits.connections));
  const std::string text = head_text(response, {.keep_alive = false, .fields = &shared_.fields}) +
                           std::get<std::string>(response.body);
  // As far as the empty buffer of a new socket takes it; what has come in is taken out of the way,
  // or closing would take the answer with it.
  send(socket.native_handle(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(socket.native_handle(), SHUT_WR);
  char thrown_away[4096];
  for (int i = 0; i < 4; ++i) {
    if (recv(socket.native_handle(), thrown_away, sizeof(thrown_away), MSG_DONTWAIT) <= 0) break;
  }
}

void ServerCore::watch_deadlines() {
  if (is_watching_ || connections_.empty()) return;
  deadlines_.expires_after(kBetweenDeadlines);
  deadlines_.async_wait([this](SystemError) {
    is_watching_ = false;
    const Clock::time_point now = Clock::now();
    for (auto next = connections_.begin(); next != connections_.end();) {
      const std::shared_ptr<Connection> connection = (next++)->second;  // may go meanwhile
      connection->check_deadline(now);
    }
    watch_deadlines();
  });
  is_watching_ = true;
}

// ---- Replies

Reply::Reply(std::weak_ptr<ServerCore> core, std::uint64_t connection, std::uint64_t request)
    : core_(std::move(core)), connection_(connection), request_(request) {}

Reply::Reply(Reply&& other) noexcept
    : core_(std::move(other.core_)), connection_(other.connection_), request_(other.request_) {}

Reply::~Reply() {
  if (core_.expired()) return;
  try {
    send(error_response(500, "the program failed to answer"));
  } catch (...) {
    // As with a program that does not answer in time.
  }
}

void Reply::send(Response response) noexcept {
  const std::shared_ptr<ServerCore> core = std::exchange(core_, {}).lock();
  if (core != nullptr) core->deliver(connection_, request_, std::move(response));
}

// ---- The server

Result<std::unique_ptr<Server>> Server::start(ServerOptions options) {
  try {
    std::unique_ptr<Server> server(new Server);
    const ServerOptions place = options;
    TESSERA_TRY(auto tls, tls_context(options));
    server->core_ = std::make_shared<ServerCore>(std::move(options), std::move(tls));
    TESSERA_RETURN_IF_ERROR(server->core_->listen(place));
    server->port_ = server->core_->port();
    server->process_ = getpid();
    server->thread_ = std::make_unique<std::thread>([core = server->core_.get()] { core->run(); });
    return server;
  } catch (const std::exception& error) {
    return no_server(error.what());
  }
}

bool Server::finish(milliseconds patience) {
  try {
    return core_->finish(patience);
  } catch (...) {
    return false;  // no memory to ask with
  }
}

Server::~Server() {
  if (thread_ == nullptr) return;
  if (getpid() != process_) {
    // The thread is the parent's, and so are the connections.
    (void)thread_.release();
    (void)new std::shared_ptr<ServerCore>(std::move(core_));
    return;
  }
  core_->stop();
  thread_->join();
  core_->end_connections();
}

}  // namespace tessera::http

// NOLINTEND(bugprone-empty-catch,bugprone-unused-return-value,bugprone-unhandled-exception-at-new)
