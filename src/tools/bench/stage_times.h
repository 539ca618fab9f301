// A pipeline whose stages take given times, behind a processor with real time behaviour: what the
// pipeline itself is worth, apart from any model and from this machine's speed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "tessera/runtime.h"

namespace tessera::tools {

// Times of one task, the same in every run.
struct StageTimes {
  double pre_ms = 0, execute_ms = 0, post_ms = 0;
  double jitter = 0;  // each time is its own at random within +- this share of it

  double of(double milliseconds, std::uint64_t task, unsigned stage) const;
};

// Sleeps until `milliseconds` are over; the last bit is waited for awake, so that it is exact.
void take(double milliseconds);

// One processor of one kernel with the times of `times`, and the pipeline in front of it.
class TimedPipeline {
 public:
  explicit TimedPipeline(const StageTimes& times, bool metrics = true);

  // pre | execute | post with these threads.
  struct Threads {
    int pre = 1, execute = 2, post = 1;
  };
  Result<Pipeline> open(const Threads& threads, PipelineOptions options = {});
  // One task after the other, as an application without a pipeline does it: each waits for its
  // result before the next begins.
  Status run_one_by_one(int tasks);

  // Since the runtime began.
  double kernel_busy_seconds() const;

 private:
  HostFunction host_stage(double milliseconds, unsigned stage) const;

  const StageTimes times_;
  std::shared_ptr<runtime::RuntimeState> state_;
  std::shared_ptr<runtime::ModelState> model_;
};

}  // namespace tessera::tools
