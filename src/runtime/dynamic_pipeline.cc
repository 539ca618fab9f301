#include "tessera/dynamic_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <utility>

#include "base/guarded.h"
#include "network/dynamic_state.h"
#include "pipeline/own_thread.h"
#include "runtime/job.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "runtime/stream.h"

namespace tessera::runtime {

class DynamicPipelineState {
 public:
  DynamicPipelineState(std::shared_ptr<RuntimeState> runtime, DynamicNetwork network,
                       DynamicPipelineOptions options)
      : runtime_(std::move(runtime)),
        network_(std::move(network)),
        options_(std::move(options)),
        failed_(JobPool::make(std::max<std::size_t>(1, options_.pipeline.jobs_max))) {}

  std::shared_ptr<StreamState> open_stream(const StreamOptions& options) {
    return make_shared_here<StreamState>(runtime_->next_stream(), options);
  }
  Result<Job> submit(const std::shared_ptr<StreamState>& stream, const std::vector<Tensor>& inputs,
                     SubmitOptions options, bool when_room);
  DynamicPipelineStatus status();
  void wait_until_done();

 private:
  // The pipeline of a network.
  struct Entry {
    Network network;
    std::shared_ptr<PipelineState> pipeline;  // shared with those that submit
    int users = 0;                            // that submit to it now
  };
  using Entries = std::list<Entry>;

  Result<Entry*> take(const Network& network);
  void release(Entry* entry);
  Entries excess();
  Result<std::shared_ptr<PipelineState>> open(const Network& network);
  Result<Job> fail(const std::shared_ptr<StreamState>& stream, Error error, SubmitOptions& options);

  const std::shared_ptr<RuntimeState> runtime_;  // shared by pipelines and models
  const DynamicNetwork network_;
  const DynamicPipelineOptions options_;
  const std::unique_ptr<JobPool, JobPool::LetGo> failed_;  // jobs of shapes without a network
  std::atomic<std::int64_t> opened_{0}, submitted_{0}, failed_shapes_{0};

  std::mutex opening_;  // one pipeline at a time is opened
  std::mutex mutex_;    // of what follows
  Entries entries_;     // the last one used first
};

namespace {

Job handle(const JobReference& job) {
  job->add_reference();
  return Job(job.get());
}

}  // namespace

Result<std::shared_ptr<PipelineState>> DynamicPipelineState::open(const Network& network) {
  TESSERA_TRY(auto model, runtime_->load(network, options_.devices, false));
  PipelineOptions options = options_.pipeline;
  options.stages = default_stages(Model(std::move(model)));
  opened_.fetch_add(1, std::memory_order_relaxed);
  return PipelineState::open(runtime_, std::move(options));
}

// Those that are too many and have no task. They end where no lock is held, since that waits for their threads; which may be
// in a callback, so that two of them would wait for each other: a thread of a pipeline leaves them to another one.
DynamicPipelineState::Entries DynamicPipelineState::excess() {
  Entries ending;
  if (pipeline::OwnThread::owner() != nullptr || JobState::in_callback_of() != nullptr) {
    return ending;
  }
  const std::lock_guard lock(mutex_);
  for (auto entry = entries_.end(); entry != entries_.begin();) {
    --entry;
    if (std::ssize(entries_) <= options_.pipelines_max) break;
    const auto next = entry;
    const bool idle = entry->users == 0 && entry->pipeline->is_idle();
    if (!idle) continue;
    ++entry;
    ending.splice(ending.end(), entries_, next);
  }
  return ending;
}

// The network's pipeline, which stays until it is released.
Result<DynamicPipelineState::Entry*> DynamicPipelineState::take(const Network& network) {
  const auto look = [&]() -> Entry* {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(
        entries_, [&](const Entry& entry) { return entry.network.share() == network.share(); });
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    ++entries_.front().users;
    return &entries_.front();
  };
  if (Entry* const entry = look()) return entry;
  const std::lock_guard opening(opening_);
  if (Entry* const entry = look()) return entry;
  TESSERA_TRY(auto pipeline, open(network));
  const std::lock_guard lock(mutex_);
  entries_.push_front({network, std::move(pipeline), 1});
  return &entries_.front();
}

void DynamicPipelineState::release(Entry* entry) {
  const std::lock_guard lock(mutex_);
  --entry->users;
}

// A job that has its place in the stream and its error.
Result<Job> DynamicPipelineState::fail(const std::shared_ptr<StreamState>& stream, Error error,
                                       SubmitOptions& options) {
  if (!failed_->room().try_take()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} jobs wait for others before them to be done, which is the most; "
                             "wait for some of them",
                             failed_->room().places())};
  }
  failed_shapes_.fetch_add(1, std::memory_order_relaxed);
  const JobReference job = failed_->take();
  const std::uint64_t id = runtime_->next_task();
  stream->open(JobReference(job.get()), id, stream, std::move(options.callback));
  Job made = handle(job);
  TaskError failed;
  failed.error = std::move(error);
  failed.task = id;
  failed.sequence = job->sequence();
  if (job->claim(JobEnd::kPacket)) {
    job->packet_left();
    job->settle(TaskOutcome(std::move(failed)), /*in_turn=*/true);
  } else {
    job->packet_left();
  }
  return made;
}

Result<Job> DynamicPipelineState::submit(const std::shared_ptr<StreamState>& stream,
                                         const std::vector<Tensor>& inputs, SubmitOptions options,
                                         bool when_room) {
  TESSERA_RETURN_IF_ERROR(runtime_->check_process("pipeline"));
  TESSERA_RETURN_IF_ERROR(network_.state().check(inputs));
  auto network = network_.network_for(inputs);
  submitted_.fetch_add(1, std::memory_order_relaxed);
  if (!network.ok()) return fail(stream, network.error(), options);
  TESSERA_TRY(std::vector<Tensor> taken, network_.inputs_of(*network, inputs));
  auto entry = take(*network);
  if (!entry.ok()) return fail(stream, entry.error(), options);
  excess().clear();
  std::vector<std::vector<Tensor>> runs;
  runs.push_back(std::move(taken));
  PipelineState& pipeline = *(*entry)->pipeline;
  auto job = when_room ? pipeline.submit_when_room(stream, std::move(runs), std::move(options))
                       : pipeline.submit(stream, std::move(runs), std::move(options));
  release(*entry);
  if (!job.ok()) return job.error();
  return handle(*job);
}

void DynamicPipelineState::wait_until_done() {
  std::vector<std::shared_ptr<PipelineState>> pipelines;
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) pipelines.push_back(entry.pipeline);
  }
  for (const auto& pipeline : pipelines) pipeline->wait_until_done();
  if (runtime_->here()) failed_->wait_until_complete();
}

DynamicPipelineStatus DynamicPipelineState::status() {
  DynamicPipelineStatus status;
  status.pipelines_opened = opened_.load(std::memory_order_relaxed);
  status.submitted = submitted_.load(std::memory_order_relaxed);
  status.failed_shapes = failed_shapes_.load(std::memory_order_relaxed);
  status.networks = network_.counters();
  const std::lock_guard lock(mutex_);
  status.pipelines = std::ssize(entries_);
  return status;
}

}  // namespace tessera::runtime

namespace tessera {

Result<DynamicPipeline> Runtime::open_pipeline(const DynamicNetwork& network,
                                               const DynamicPipelineOptions& options) {
  return guarded("opening a pipeline", [&]() -> Result<DynamicPipeline> {
    TESSERA_RETURN_IF_ERROR(usable());
    if (!options.pipeline.stages.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "DynamicPipelineOptions::pipeline has stages; those of a dynamic network are "
                   "pre, execute and post of each of its networks"};
    }
    if (options.pipelines_max < 1) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("DynamicPipelineOptions::pipelines_max is {}, allowed is 1 or more",
                               options.pipelines_max)};
    }
    for (const std::string& device : options.devices) {
      TESSERA_RETURN_IF_ERROR(state_->find(device));
    }
    return DynamicPipeline(
        std::make_shared<runtime::DynamicPipelineState>(state_, network, options));
  });
}

DynamicStream DynamicPipeline::open_stream(const StreamOptions& options) {
  return {state_, state_->open_stream(options)};
}
DynamicPipelineStatus DynamicPipeline::status() const { return state_->status(); }
void DynamicPipeline::wait_until_done() { state_->wait_until_done(); }

Result<Job> DynamicStream::submit(const std::vector<Tensor>& inputs, SubmitOptions options) {
  return guarded("submitting a task", [&] {
    return pipeline_->submit(state_, inputs, std::move(options), /*when_room=*/false);
  });
}
Result<Job> DynamicStream::submit_when_room(const std::vector<Tensor>& inputs,
                                            SubmitOptions options) {
  return guarded("submitting a task", [&] {
    return pipeline_->submit(state_, inputs, std::move(options), /*when_room=*/true);
  });
}
void DynamicStream::wait_until_done() { state_->wait_until_done(); }
std::uint32_t DynamicStream::id() const { return state_->id(); }

}  // namespace tessera
