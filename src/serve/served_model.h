// One version of a model that takes requests: its network on a device of its own, and what became of the requests.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "serve/infer_message.h"
#include "serve/model_repository.h"
#include "tessera/network.h"
#include "tessera/runtime.h"

namespace tessera::serve {

// Number of requests and time of all of them.
struct Duration {
  std::int64_t count = 0;
  std::chrono::nanoseconds time{0};

  void add(std::chrono::nanoseconds one) {
    ++count;
    time += one;
  }
};

// How many requests took how long, in buckets that add up over servers: Prometheus' histogram.
struct TimeBuckets {
  static constexpr std::array<double, 14> kBounds = {  // seconds
      0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5};
  std::array<std::int64_t, kBounds.size() + 1> counts{};  // the last: longer than all

  void add(std::chrono::nanoseconds time);
};

// Since it was loaded.
struct ModelStatistics {
  Duration success, failure;  // from the request's bytes to the answer's
  std::int64_t failed_late = 0, failed_input = 0, failed_full = 0, failed_run = 0;
  Duration queue, input, infer, output;  // of those that succeeded
  TimeBuckets times;                     // likewise
  std::int64_t pending = 0;
  std::int64_t cycles = 0;             // simulated; 0 on host
  std::int64_t last_inference_ms = 0;  // since 1970; 0: none
};

class ServedModel : public std::enable_shared_from_this<ServedModel> {
 public:
  // Compiles, and opens the device. Takes as long as that.
  static Result<std::shared_ptr<ServedModel>> load(const std::string& name, const ModelFile& file,
                                                   const ModelConfig& config);

  const std::string& name() const { return name_; }
  const std::string& version() const { return version_; }
  const std::string& platform() const { return platform_; }
  const Network& network() const { return network_; }
  ModelStatistics statistics() const;

  enum class Refusal { kInput, kFull, kLate, kRun };
  struct Failure {
    Refusal refusal = Refusal::kRun;
    std::string message;
  };
  // Exactly one of the two.
  struct Answer {
    InferAnswer answer;
    std::optional<Failure> failure;
  };
  // Calls `done` once: by a thread of the runtime, or here where the request is refused. The model lives until
  // then.
  void infer(std::string_view body, std::optional<std::size_t> header_bytes,
             std::function<void(Answer)> done);

 private:
  using Clock = std::chrono::steady_clock;
  struct Open;
  ServedModel(std::string name, const ModelFile& file, Network network, Runtime runtime,
              Pipeline pipeline, const ModelConfig& config);
  void finish(Open& open, TaskOutcome outcome);
  void fail(Open& open, Failure failure);
  void note(const TaskResult& result, Clock::duration total);

  const std::string name_, version_, platform_;
  const std::chrono::microseconds timeout_;
  const Network network_;
  Runtime runtime_;
  Pipeline pipeline_;
  Stream stream_;
  mutable std::mutex mutex_;  // of statistics_
  ModelStatistics statistics_;
};

}  // namespace tessera::serve
