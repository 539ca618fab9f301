// Requests of one model that cannot go to the device as they come: those that make a batch with others, and those
// whose shapes are not compiled yet.
//
//   push ─► [by priority, then arrival] ─► thread: batch is full, or its first has waited for the delay ─► submit
//                                                  shapes are new: compile ─► submit
//                                                  a request's time is over: answered
//
// For several threads at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/result.h"
#include "serve/compiled_shapes.h"
#include "serve/open_request.h"

namespace tessera::serve {

struct RequestQueueOptions {
  std::int64_t batch_max = 1;          // rows; 1: no batches
  std::chrono::microseconds delay{0};  // that the first request of a batch waits for others
  std::size_t requests_max = 256;
  int runs_max = 2;  // batches on their way to and on the device
  // By the queue's thread. `rows` of all of them; 0: it is one request, as it is. run_ended() follows.
  std::function<void(const std::shared_ptr<CompiledModel>&,
                     std::vector<std::shared_ptr<OpenRequest>>, std::int64_t rows)>
      submit = {};
  std::function<void(OpenRequest&, Failure)> fail = {};
};

class RequestQueue {
 public:
  // The error is that the system has no thread. The shapes outlive every request.
  static Result<std::unique_ptr<RequestQueue>> start(CompiledShapes& shapes,
                                                     const RequestQueueOptions& options);
  ~RequestQueue();

  bool push(std::shared_ptr<OpenRequest> request);  // false: full
  void run_ended();                                 // of a batch that was submitted

  struct State;

 private:
  explicit RequestQueue(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // Shared with the thread, which may release the model, and this with it.
  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace tessera::serve
