#include "dashboard/server.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "dashboard/routes.h"
#include "http/server.h"

namespace tessera::dashboard {

namespace {

constexpr std::size_t kControlsWaiting = 16;

}  // namespace

class Server::Implementation {
 public:
  Implementation(metrics::Collector& collector, Controls* controls, const ServerOptions& options)
      : address_(options.listen.address),
        routes_(collector, controls, options.listen.address, options.title) {}

  ~Implementation() {
    server_.reset();
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    if (controlling_.joinable()) controlling_.join();
  }

  Status start(const ServerOptions& options) {
    try {
      controlling_ = std::thread([this] { control(); });
    } catch (const std::system_error& error) {
      return Error{
          ErrorCode::kUnavailable,
          fmt::format("the system has no thread for a server ({}); end some, or allow more "
                      "(ulimit -u)",
                      error.what())};
    }
    TESSERA_TRY(server_,
                http::Server::start({.address = options.listen.address,
                                     .port = options.listen.port,
                                     .limits = options.limits,
                                     .fields = Routes::fields(),
                                     .handler = [this](http::Request request, http::Reply reply) {
                                       handle(std::move(request), std::move(reply));
                                     }}));
    return {};
  }

  int port() const { return server_->port(); }
  const std::string& address() const { return address_; }

 private:
  struct Waiting {
    http::Request request;
    http::Reply reply;
  };

  // A change of a pipeline may wait for threads of it; readers do not wait with it.
  void handle(http::Request request, http::Reply reply) {
    if (!Routes::may_wait(request)) return reply.send(routes_.answer(request));
    std::unique_lock lock(mutex_);
    if (waiting_.size() >= kControlsWaiting) {
      lock.unlock();
      return reply.send(http::busy_response("more changes wait than the program has made so far"));
    }
    waiting_.push_back({std::move(request), std::move(reply)});
    changed_.notify_all();
  }

  void control() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      try {
        next.reply.send(routes_.answer(next.request));
      } catch (...) {
        // A reply that is dropped answers 500.
      }
      lock.lock();
    }
  }

  const std::string address_;
  Routes routes_;     // used by the server's thread; changes by the one below
  std::mutex mutex_;  // of the members up to stopping_
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool stopping_ = false;
  std::thread controlling_;
  std::unique_ptr<http::Server> server_;  // after what it asks
};

Server::Server(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(metrics::Collector& collector, Controls* controls,
                                              const ServerOptions& options) {
  auto implementation = std::make_unique<Implementation>(collector, controls, options);
  TESSERA_RETURN_IF_ERROR(implementation->start(options));
  return std::unique_ptr<Server>(new Server(std::move(implementation)));
}

int Server::port() const { return implementation_->port(); }

std::string Server::url() const {
  const std::string& address = implementation_->address();
  const bool is_v6 = address.find(':') != std::string::npos;
  return is_v6 ? fmt::format("http://[{}]:{}", address, port())
               : fmt::format("http://{}:{}", address, port());
}

}  // namespace tessera::dashboard
