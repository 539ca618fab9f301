// The Open Inference Protocol v2 over gRPC (inference_service.proto), by gRPC's callbacks: a slow client holds no
// thread.
//
//   clients ══► gRPC's threads ─► Service ─► pipeline ─► answer from its thread
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/service.h"

namespace tessera::serve {

struct GrpcOptions {
  std::string address = "127.0.0.1";
  int port = 8001;  // 0: any that is free
  // Of a request, and of all requests that are being received together, within a factor of what gRPC keeps besides.
  std::size_t request_bytes = std::size_t{64} << 20;
  std::size_t memory_bytes = std::size_t{1} << 30;
  int streams = 1024;  // calls at once of a connection
  // As PEM; empty: without TLS.
  std::string certificate = {}, key = {};
};

class GrpcServer {
 public:
  // The service outlives it. The error says that the port is taken or the certificate wrong.
  static Result<std::unique_ptr<GrpcServer>> start(Service& service, const GrpcOptions& options);
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;
  ~GrpcServer();  // ends the calls that are open

  int port() const { return port_; }
  // Takes no more streams; those that are open end as soon as the requests that they have taken are answered.
  void begin_shutdown();
  // That, accepts no more calls, and waits for those that are open. False: there still was one after `patience`.
  bool finish(std::chrono::milliseconds patience);

 private:
  class Calls;
  struct Running;
  GrpcServer();
  std::unique_ptr<Calls> calls_;  // before the server, which uses it
  std::unique_ptr<Running> running_;
  int port_ = 0;
};

}  // namespace tessera::serve
