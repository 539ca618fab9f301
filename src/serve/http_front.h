// The Open Inference Protocol v2 over HTTP.
//
//   GET  /v2/health/live, /v2/health/ready, /healthz
//   GET  /v2                                                server metadata
//   GET  /v2/models/M[/versions/V][/ready|/stats]           model metadata, readiness, statistics
//   POST /v2/models/M[/versions/V]/infer
//   POST /v2/repository/index, /v2/repository/models/M/load, /v2/repository/models/M/unload
//   GET  /v2/systemsharedmemory[/region/R]/status           shared memory
//   POST /v2/systemsharedmemory/region/R/register, /v2/systemsharedmemory[/region/R]/unregister
//   GET  /metrics                                           Prometheus text
#pragma once

#include <string>
#include <vector>

#include "http/message.h"
#include "http/server.h"
#include "serve/service.h"

namespace tessera::serve {

// For several threads at once.
class HttpFront {
 public:
  explicit HttpFront(Service& service) : service_(service) {}  // which outlives it

  // The handler of a server.
  void handle(http::Request request, http::Reply reply);

 private:
  struct Path;
  http::Response answer(const Client& client, const http::Request& request, const Path& path);
  std::vector<std::string> extensions() const;
  void infer(const Client& client, const Path& path, const http::Request& request,
             http::Reply reply);
  void change(const Client& client, const Path& path, const http::Request& request,
              http::Reply reply);
  http::Response model_metadata(const Client& client, const Path& path);
  http::Response model_statistics(const Client& client, const Path& path);
  http::Response repository_index(const Client& client, const http::Request& request);
  http::Response regions(const Client& client, const Path& path);
  http::Response add_region(const Client& client, const http::Request& request, const Path& path);

  Service& service_;
};

}  // namespace tessera::serve
