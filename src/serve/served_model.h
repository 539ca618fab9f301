// One version of a model that takes requests: its network on a device of its own, and what became of the requests.
//
//   infer ─► admission ─┬─────────────────────────────► pipeline of the shapes ─► encode, send
//                       └─► queue: shapes that are not compiled yet, requests that make a batch ─┘
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "serve/compiled_shapes.h"
#include "serve/infer_outcome.h"
#include "serve/model_repository.h"
#include "serve/model_statistics.h"
#include "tessera/runtime.h"

namespace tessera::serve {

class RequestQueue;
struct OpenRequest;
class TraceFile;

class ServedModel : public std::enable_shared_from_this<ServedModel> {
 public:
  // Compiles, and opens the device. Takes as long as that. `trace` may be null.
  static Result<std::shared_ptr<ServedModel>> load(const std::string& name, const ModelFile& file,
                                                   const ModelConfig& config,
                                                   std::shared_ptr<TraceFile> trace = {});
  ~ServedModel();

  const std::string& name() const { return answering_->name; }
  const std::string& version() const { return answering_->version; }
  const std::string& platform() const { return platform_; }
  const ModelForm& form() const { return shapes_->form(); }
  ModelStatistics statistics() const;

  // `request` may be an error, which is counted. The model lives until it is answered.
  void infer(Result<InferRequest> request, std::chrono::steady_clock::time_point begin,
             Encode encode);

  // Internal, for RequestQueue.
  void fail(OpenRequest& open, Failure failure);
  // Of one request, or of a batch: each has its part of the outputs. `rows` of them all, in a batch.
  void submit(const std::shared_ptr<CompiledModel>& compiled,
              std::vector<std::shared_ptr<OpenRequest>> requests, std::int64_t rows);

 private:
  using Clock = std::chrono::steady_clock;
  ServedModel(std::string name, const ModelFile& file, const ModelConfig& config,
              std::unique_ptr<CompiledShapes> shapes, std::shared_ptr<TraceFile> trace);
  // Where the time of a run went.
  struct RunTimes {
    std::chrono::nanoseconds queued{0}, input{0}, infer{0}, output{0};
    std::int64_t cycles = 0;
  };
  std::optional<Failure> admit(OpenRequest& open);
  void finish(OpenRequest& open, const CompiledModel& compiled, std::vector<Tensor> outputs,
              const RunTimes& times);
  void finish_all(const std::vector<std::shared_ptr<OpenRequest>>& requests,
                  CompiledModel& compiled, TaskOutcome outcome);
  void note_run(CompiledModel& compiled, const RunTimes& times);
  void answer_failure(OpenRequest& open, Failure failure);  // after take()
  bool take(OpenRequest& open);  // true once: nobody else has answered it

  const std::shared_ptr<const AnsweringModel> answering_;  // shared with answers
  const std::string platform_;
  const ModelConfig config_;
  const std::unique_ptr<CompiledShapes> shapes_;
  std::atomic<Clock::time_point> last_answer_{Clock::time_point{}};  // behind its sending
  const std::shared_ptr<TraceFile> trace_;                           // shared by all models
  mutable std::mutex mutex_;                                         // of what follows
  ModelStatistics statistics_;
  std::array<std::chrono::nanoseconds, kPriorityHighest - kPriorityLowest + 1> backlog_{};
  std::unique_ptr<RequestQueue> queue_;  // null: every request goes to the pipeline at once
};

}  // namespace tessera::serve
