#include "dashboard/pool_server.h"

#include <fmt/format.h>

#include <memory>
#include <mutex>
#include <utility>

#include "dashboard/page.h"
#include "dashboard/routes.h"
#include "http/server.h"

namespace tessera::dashboard {

class PoolServer::Implementation {
 public:
  explicit Implementation(ListenAddress listen) : listen_(std::move(listen)) {}

  Status start() {
    TESSERA_TRY(server_, http::Server::start(
                             {.address = listen_.address,
                              .port = listen_.port,
                              .fields = Routes::fields(),
                              .handler = [this](const http::Request& request, http::Reply reply) {
                                reply.send(answer(request));
                              }}));
    return {};
  }

  void set_state(std::string json, std::string metrics) {
    const std::lock_guard lock(mutex_);
    state_ = std::move(json);
    metrics_ = std::move(metrics);
  }
  int port() const { return server_->port(); }
  const std::string& address() const { return listen_.address; }

 private:
  http::Response answer(const http::Request& request) {
    if (!is_own_page_or_program(request, listen_.address)) {
      return http::error_response(
          403,
          "a page of another origin asked; allowed are pages of this server, opened "
          "by its address or as localhost");
    }
    if (request.method != "GET" && request.method != "HEAD") {
      http::Response refusal = http::error_response(405, "there are GET and HEAD");
      refusal.fields.push_back({"Allow", "GET, HEAD"});
      return refusal;
    }
    if (request.path == "/state") {
      const std::lock_guard lock(mutex_);
      return {.type = "application/json", .body = state_};
    }
    if (request.path == "/metrics") {
      const std::lock_guard lock(mutex_);
      return {.type = "text/plain; version=0.0.4", .body = metrics_};
    }
    const std::string_view wanted = request.path == "/" ? std::string_view("/pool") : request.path;
    for (const PageFile& file : page_files()) {
      if (file.path == wanted && wanted.starts_with("/pool")) {
        return {.type = std::string(file.type), .body = file.text};
      }
    }
    return http::error_response(404, "there are /, /state and /metrics");
  }

  const ListenAddress listen_;
  std::mutex mutex_;
  std::string state_ = "{}", metrics_;
  std::unique_ptr<http::Server> server_;  // after what it asks
};

PoolServer::PoolServer(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}
PoolServer::~PoolServer() = default;

Result<std::unique_ptr<PoolServer>> PoolServer::start(const ListenAddress& listen) {
  if (page_files().empty()) {
    return Error{ErrorCode::kUnsupported,
                 "this program was built without npm and has no page; install npm, configure and "
                 "build again"};
  }
  auto implementation = std::make_unique<Implementation>(listen);
  TESSERA_RETURN_IF_ERROR(implementation->start());
  return std::unique_ptr<PoolServer>(new PoolServer(std::move(implementation)));
}

void PoolServer::set_state(std::string json, std::string metrics) {
  implementation_->set_state(std::move(json), std::move(metrics));
}

std::string PoolServer::url() const {
  const std::string& address = implementation_->address();
  const bool is_v6 = address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", is_v6 ? "[" : "", address, is_v6 ? "]" : "",
                     implementation_->port());
}

}  // namespace tessera::dashboard
