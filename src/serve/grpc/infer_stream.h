// Streams of requests: each request is answered as soon as it is done, and a stream can be ended by the server.
//
//   read ─► Service ─► answers, in the order in which they are done ─► write
#pragma once

#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "inference_service.pb.h"
#include "serve/service.h"

namespace tessera::serve {

class InferStream;

// Those that are open. For several threads at once.
class InferStreams {
 public:
  using Reactor =
      grpc::ServerBidiReactor<inference::ModelInferRequest, inference::ModelStreamInferResponse>;

  InferStreams();
  ~InferStreams();
  // One more, which goes away by itself. The service outlives it. Null: no more are taken.
  Reactor* start(Service& service, Client client, std::chrono::system_clock::time_point deadline);
  // Takes no more, and each that is open ends as soon as the requests that it has taken are answered.
  void shut_down();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<InferStream>> streams_;
  bool is_over_ = false;
};

}  // namespace tessera::serve
