// A pipeline that only exists as events: three stages, two kernels with batches of eight, a queue.
// It keeps time with the wall clock, and an operator can change the threads of its stages; what
// then happens is computed, so that a test knows what to expect.
//
//   source ─► [pre: 6 ms] ─► queue of 16 ─► kernel A | kernel B: 5 ms a task ─► [post: 1 ms]
//
// With one thread, pre lets 167 tasks per second through and the kernels are busy 42 % of the time;
// from three threads on the kernels are the limit.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "dashboard/controls.h"
#include "metrics/recorder.h"

namespace tessera::dashboard {

class ScriptedPipeline : public Controls {
 public:
  // The recorder outlives the pipeline, which runs until it is destroyed.
  static Result<std::unique_ptr<ScriptedPipeline>> start(metrics::Recorder& recorder);
  ~ScriptedPipeline() override;

  std::vector<StageControl> stages() override;
  Status set_threads(const std::string& stage, int threads) override;
  std::vector<Choice> choices() override;
  std::vector<CardStatus> cards() override;
  Status choose(const std::string& name, const std::string& position) override;

 private:
  static constexpr int kThreadsMax = 8;
  struct StageState {
    std::string name;
    metrics::SourceId source;
    std::int64_t work_ns;
    std::vector<std::int64_t> free_from;  // of each thread
  };
  struct KernelState {
    metrics::SourceId source;
    std::int64_t free_from = 0;
  };

  explicit ScriptedPipeline(metrics::Recorder& recorder);
  Status add_sources();
  void run();
  void next_packet();
  // The interval in which a stage works on what is there from `ready` on.
  std::int64_t pass_stage(StageState& stage, std::int64_t ready);
  void pass_kernel(std::int64_t ready, std::int64_t& begin, std::int64_t& end);
  void emit(const metrics::Event& event) { waiting_.push_back(event); }
  void record_until(std::int64_t now);

  metrics::Recorder& recorder_;
  std::mutex mutex_;  // everything below
  std::vector<StageState> stages_;
  std::array<KernelState, 2> kernels_;
  metrics::SourceId device_, queue_, tasks_;
  std::vector<std::int64_t> kernel_begins_;  // of the newest packets, for the bound of the queue
  std::vector<metrics::Event> waiting_;      // scripted, not yet over
  std::mt19937 random_{5};
  std::uint64_t packet_ = 0;
  std::int64_t reached_ = 0;  // when the newest packet entered
  std::string tune_ = "off";
  std::int64_t asked_for_cards_ = 0;
  bool stopping_ = false;
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace tessera::dashboard
