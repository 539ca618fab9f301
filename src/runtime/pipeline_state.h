// What is behind a Pipeline: its stages, the jobs inside it, and what changes them while they run.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/guarded.h"
#include "pipeline/pipeline.h"
#include "runtime/deadline_clock.h"
#include "runtime/debugging.h"
#include "runtime/execute_stage.h"
#include "runtime/memory_state.h"
#include "runtime/runtime_state.h"
#include "runtime/stream.h"
#include "runtime/task_packet.h"
#include "runtime/tuner.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class PipelineState : private pipeline::Sink,
                      private pipeline::StageObserver,
                      private JobOwner,
                      private Tunable,
                      private Entrance {
 public:
  static Result<std::shared_ptr<PipelineState>> open(std::shared_ptr<RuntimeState> runtime,
                                                     const PipelineOptions& options);
  // pre | execute | post of single layers and operations; threads and stages' names of `options`
  // do not count.
  static Result<std::shared_ptr<PipelineState>> open_for_operations(
      std::shared_ptr<RuntimeState> runtime, PipelineOptions options);
  ~PipelineState() override;  // waits for the jobs inside

  std::shared_ptr<StreamState> open_stream(const StreamOptions& options);
  // kUnavailable: there is no room; `when_room`: they wait for some.
  Result<JobReference> submit(const std::shared_ptr<StreamState>& stream,
                              std::vector<std::vector<Tensor>> runs, SubmitOptions options);
  Result<JobReference> submit_when_room(const std::shared_ptr<StreamState>& stream,
                                        std::vector<std::vector<Tensor>> runs,
                                        SubmitOptions options);
  // A task whose job has its place in the stream already, and its room elsewhere: its deadline is watched there. Where
  // it fails the job is left as it was.
  Status submit_opened(const std::shared_ptr<StreamState>& stream, const JobReference& job,
                       std::vector<Tensor> inputs, const SubmitOptions& options,
                       pipeline::Nanoseconds submitted);
  Result<JobReference> submit_layer(const std::shared_ptr<StreamState>& stream,
                                    const std::shared_ptr<LayersState>& layers,
                                    const LayerTask& task, SubmitOptions options, bool when_room);
  Result<JobReference> submit_operation(const std::shared_ptr<StreamState>& stream,
                                        const OperationTask& task, SubmitOptions options,
                                        bool when_room);
  // Whether the first stage, if it is one of a model, can take these runs: checked before the task
  // enters. What a function of the application makes of them is unknown.
  Status check_runs(std::span<const std::vector<Tensor>> runs,
                    const std::vector<std::string>& skipped_stages) const;
  Status check_process() const { return runtime_->check_process("pipeline"); }
  Result<JobReference> submit_network(const std::shared_ptr<StreamState>& stream, NetworkTask task,
                                      SubmitOptions options, bool when_room);
  Status bind_states(StreamState& stream, const Memory& memory,
                     const std::vector<StateBinding>& bindings);
  // Whether the calling thread is one of this pipeline, so that it cannot wait for it.
  bool called_from_inside() const;
  // No job is open, and no callback of one is called.
  bool is_idle() const {
    return jobs_->is_complete() && inside_.load(std::memory_order_acquire) == 0;
  }
  bool wait_for_room(std::chrono::nanoseconds patience);
  void wait_until_done();

  PipelineStatus status();
  Status set_threads(const std::string& stage, int threads);
  Status set_kernels(const std::string& stage, int kernels);
  Status set_tuning(bool on);
  void set_debug(const DebugOptions& debug);

 private:
  struct StageEntry {
    std::string name;
    StageKind kind = StageKind::kHost;
    std::shared_ptr<ModelState> model;      // of pre and execute; shared with the application
    std::shared_ptr<ExecuteStage> execute;  // shared with the pipeline
    metrics::SourceId source, queue;
  };

  enum class PacketKind : std::uint8_t { kNetwork, kOperation };
  PipelineState(std::shared_ptr<RuntimeState> runtime, const PipelineOptions& options,
                PacketKind kind);
  static Result<std::shared_ptr<PipelineState>> start(std::unique_ptr<PipelineState> state,
                                                      const PipelineOptions& options,
                                                      std::vector<pipeline::StageConfig> stages);
  pipeline::StageConfig register_stage(StageEntry entry, pipeline::StageConfig config);
  // Whether tasks of this kind are taken, in this process.
  Status check_call(PacketKind kind) const;
  Status admit(bool when_room);
  Status admit_or_refuse();
  Status admit_when_room();
  // Stage `index` of the options.
  Result<pipeline::StageConfig> make_stage(const PipelineOptions& options, std::size_t index);
  Result<std::size_t> index_of(const std::string& stage) const;
  Result<std::uint32_t> skipped(const std::vector<std::string>& names) const;
  Result<JobReference> enter(const std::shared_ptr<StreamState>& stream, pipeline::PacketPtr packet,
                             SubmitOptions options);
  // What a packet has of its task.
  struct Entering {
    std::uint32_t skipped_stages = 0;
    int priority = 0;
    pipeline::Nanoseconds submitted = 0;
    bool in_place = false;
  };
  Result<Entering> entering(const StreamState& stream, const SubmitOptions& options) const;
  void bring_in(pipeline::PacketPtr packet, const StreamState& stream, const JobReference& job,
                const Entering& how);
  // enter(), which brings an admitted task in; where it fails the task's room is released.
  template <typename Enter>
  Result<JobReference> with_room(const Enter& enter) {
    auto entered = guarded("submitting a task", enter);
    if (!entered.ok()) jobs_->room().give_back();
    return entered;
  }
  pipeline::PacketPtr network_packet_of(const StreamState& stream,
                                        std::vector<std::vector<Tensor>> runs,
                                        const SubmitOptions& options);
  Status prepare_turn(PacketTurn& turn);
  void await_turn(pipeline::PacketPtr packet, bool in_place);
  void let_in(pipeline::PacketPtr packet) override;
  void wait_until_none_waits();
  Status check_network_task(const NetworkTask& task) const;
  std::int64_t cycles_of_rows(const NetworkTask& task) const;
  pipeline::PacketPtr packet_of(const StreamState& stream, NetworkTask task,
                                const SubmitOptions& options);
  // Its blocks are others' turn now. Before the job is settled.
  void end_turn(TaskPacket& packet);
  void finished(pipeline::PacketPtr packet) override;
  void begins(std::size_t stage, pipeline::Nanoseconds begin) override;
  void queue_changed(std::size_t stage, pipeline::Nanoseconds at, std::size_t depth) override;
  void keeps(std::size_t stage, pipeline::Packet& packet) override;
  void kept(std::size_t stage, pipeline::Nanoseconds begin, pipeline::Nanoseconds end,
            pipeline::Packet& packet) override;
  void job_ended() override;
  void job_overruled(JobEnd end, bool good) override;
  void ran(std::size_t stage, pipeline::Nanoseconds begin, pipeline::Nanoseconds end,
           std::span<const pipeline::PacketPtr> batch) override;
  PeriodLoad totals() override;
  void change(const ThreadChange& change) override;
  TaskOutcome outcome_or_no_memory(TaskPacket& packet, pipeline::Nanoseconds now) const;
  metrics::Outcome count_end(JobEnd end, pipeline::Failure failure);
  TaskOutcome outcome_of(TaskPacket& packet, pipeline::Nanoseconds now) const;

  const std::shared_ptr<RuntimeState> runtime_;  // shared by pipelines and models
  const PacketKind kind_;
  const pipeline::Nanoseconds recorder_start_;  // of the recorder's clock
  const std::function<void(const std::string&)> tuning_log_;
  Debugging debugging_;
  std::vector<StageEntry> stages_;
  std::shared_ptr<ModelState> first_model_, last_model_;  // of execute stages; shared with them
  metrics::SourceId tasks_source_;

  const std::unique_ptr<JobPool, JobPool::LetGo> jobs_;
  pipeline::PacketPool packets_;
  std::atomic<std::int64_t> inside_{0};  // packets
  std::atomic<std::int64_t> submitted_{0}, succeeded_{0}, failed_{0}, cancelled_{0}, late_{0};

  std::atomic<bool> tuning_{false};

  std::mutex waiting_mutex_;
  std::condition_variable none_waits_;
  std::size_t waiting_ = 0;  // packets whose turn on their blocks has not come

  DeadlineClock deadlines_;
  std::unique_ptr<pipeline::PacketPipeline> pipeline_;
  Tuner tuner_{*this};  // after the pipeline, which it changes
};

}  // namespace tessera::runtime
