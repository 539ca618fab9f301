// A request on its way through a model. Internal to the model and its queue.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "serve/infer_outcome.h"

namespace tessera::serve {

struct OpenRequest {
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<const void> model;  // the served model, which stays until it is answered
  InferRequest request;
  Encode encode;
  Clock::time_point begin;                   // before it was taken apart
  Clock::time_point arrival = Clock::now();  // behind that
  Clock::time_point submitted{};             // to the pipeline
  Clock::time_point deadline = Clock::time_point::max();
  std::chrono::nanoseconds predicted{0};  // what it adds to the backlog
  std::int64_t rows = 1;                  // of a batch
  std::vector<Shape> shapes;              // of its inputs
  bool is_queued = false;                 // goes through the queue
  bool in_place = false;  // the thread that brings it may do the work (SubmitOptions::in_place)
  std::atomic<bool> is_answered = false;
};

}  // namespace tessera::serve
