#include "tessera/dynamic_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/guarded.h"
#include "network/dynamic_state.h"
#include "pipeline/own_thread.h"
#include "runtime/deadline_clock.h"
#include "runtime/delete_elsewhere.h"
#include "runtime/job.h"
#include "runtime/patience.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "runtime/stream.h"

namespace tessera::runtime {

// Tasks whose network is there enter its pipeline at once, by the thread that submits them. The others have their place in
// their stream, and wait for the worker:
//
//   submit ──► [ waiting ] ──► worker: compile, open ──► the network's pipeline
//                                      or run in parts ──► result
class DynamicPipelineState {
 public:
  DynamicPipelineState(std::shared_ptr<RuntimeState> runtime, DynamicNetwork network,
                       DynamicPipelineOptions options)
      : runtime_(std::move(runtime)),
        network_(std::move(network)),
        options_(std::move(options)),
        jobs_(JobPool::make(std::max<std::size_t>(1, options_.pipeline.jobs_max))) {}
  ~DynamicPipelineState();  // waits for all tasks

  std::shared_ptr<StreamState> open_stream(const StreamOptions& options) {
    return make_shared_here<StreamState>(runtime_->next_stream(), options);
  }
  Result<Job> submit(const std::shared_ptr<StreamState>& stream, const std::vector<Tensor>& inputs,
                     SubmitOptions options, bool when_room);
  DynamicPipelineStatus status();
  void wait_until_done();
  Status check_process() const { return runtime_->check_process("pipeline"); }

 private:
  // The pipeline of a network.
  struct Entry {
    Network network;
    std::shared_ptr<PipelineState> pipeline;  // shared with those that submit
    int users = 0;                            // that submit to it now
  };
  using Entries = std::list<Entry>;
  // A task without a network as yet.
  struct Waiting {
    std::shared_ptr<StreamState> stream;  // shared with its handles and jobs
    JobReference job;
    std::vector<Tensor> inputs;
    SubmitOptions options;
    pipeline::Nanoseconds submitted = 0;
  };

  Entry* opened(const Network& network);
  Result<Entry*> take(const Network& network);
  void release(Entry* entry);
  Entries excess();
  Result<std::shared_ptr<PipelineState>> open(const Network& network);

  bool waits(const StreamState& stream);
  std::optional<Result<Job>> submit_now(const std::shared_ptr<StreamState>& stream,
                                        const std::vector<Tensor>& inputs, SubmitOptions& options,
                                        bool when_room);
  Result<Job> wait_for_network(const std::shared_ptr<StreamState>& stream,
                               const std::vector<Tensor>& inputs, SubmitOptions& options);
  Status take_room(bool when_room);
  void start();
  void work();
  void begin(Waiting& task);
  Status enter(Waiting& task);
  Status run_in_parts(Waiting& task);
  static void settle(const Waiting& task, TaskOutcome outcome);

  const std::shared_ptr<RuntimeState> runtime_;  // shared by pipelines and models
  const DynamicNetwork network_;
  const DynamicPipelineOptions options_;
  const std::unique_ptr<JobPool, JobPool::LetGo> jobs_;  // of tasks that waited
  std::atomic<std::int64_t> opened_{0}, submitted_{0}, failed_shapes_{0}, ran_in_parts_{0};

  std::mutex opening_;  // one pipeline at a time is opened
  std::mutex mutex_;    // of what follows
  Entries entries_;     // the last one used first

  std::mutex waiting_mutex_;  // of what follows
  std::condition_variable changed_, none_waits_;
  std::deque<Waiting> waiting_;
  std::map<const StreamState*, std::int64_t> waiting_of_;  // also the one that the worker is at
  bool ending_ = false;
  std::thread worker_;                   // begins with the first task that waits
  std::optional<DynamicSession> parts_;  // of the worker alone
  DeadlineClock deadlines_;              // of tasks that wait, and of those that waited
};

namespace {

Job handle(const JobReference& job) {
  job->add_reference();
  return Job(job.get());
}

// In a process that was forked off there is no worker.
void delete_dynamic_pipeline(DynamicPipelineState* state) {
  if (state->check_process().ok()) delete_elsewhere(state);
}

}  // namespace

DynamicPipelineState::~DynamicPipelineState() {
  {
    const std::lock_guard lock(waiting_mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (worker_.joinable()) worker_.join();
  entries_.clear();
  jobs_->wait_until_complete();
  deadlines_.stop();
}

Result<std::shared_ptr<PipelineState>> DynamicPipelineState::open(const Network& network) {
  TESSERA_TRY(auto model, runtime_->load(network, options_.devices, false));
  PipelineOptions options = options_.pipeline;
  options.stages = default_stages(Model(std::move(model)));
  opened_.fetch_add(1, std::memory_order_relaxed);
  return PipelineState::open(runtime_, options);
}

// Those that are too many and have no task. They end where no lock is held, since that waits for their threads; which may be
// in a callback, so that two of them would wait for each other: a thread of a pipeline leaves them to another one.
DynamicPipelineState::Entries DynamicPipelineState::excess() {
  Entries ending;
  const void* const owner = pipeline::OwnThread::owner();
  if ((owner != nullptr && owner != this) || JobState::in_callback_of() != nullptr) return ending;
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

// Which stays until it is released; null: there is none.
DynamicPipelineState::Entry* DynamicPipelineState::opened(const Network& network) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      entries_, [&](const Entry& entry) { return entry.network.share() == network.share(); });
  if (found == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found);
  ++entries_.front().users;
  return &entries_.front();
}

// The same; opened where there is none.
Result<DynamicPipelineState::Entry*> DynamicPipelineState::take(const Network& network) {
  if (Entry* const entry = opened(network)) return entry;
  const std::lock_guard opening(opening_);
  if (Entry* const entry = opened(network)) return entry;
  TESSERA_TRY(auto pipeline, open(network));
  const std::lock_guard lock(mutex_);
  entries_.push_front({network, std::move(pipeline), 1});
  return &entries_.front();
}

void DynamicPipelineState::release(Entry* entry) {
  const std::lock_guard lock(mutex_);
  --entry->users;
}

bool DynamicPipelineState::waits(const StreamState& stream) {
  const std::lock_guard lock(waiting_mutex_);
  return waiting_of_.contains(&stream);
}

Result<Job> DynamicPipelineState::submit(const std::shared_ptr<StreamState>& stream,
                                         const std::vector<Tensor>& inputs, SubmitOptions options,
                                         bool when_room) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_RETURN_IF_ERROR(network_.state().check(inputs));
  if (auto now = submit_now(stream, inputs, options, when_room)) return std::move(*now);
  TESSERA_RETURN_IF_ERROR(take_room(when_room));
  auto job =
      guarded("submitting a task", [&] { return wait_for_network(stream, inputs, options); });
  if (!job.ok()) jobs_->room().give_back();
  return job;
}

// Where the network and its pipeline are there, and no task of the stream waits. Nothing: it has to wait.
std::optional<Result<Job>> DynamicPipelineState::submit_now(
    const std::shared_ptr<StreamState>& stream, const std::vector<Tensor>& inputs,
    SubmitOptions& options, bool when_room) {
  if (waits(*stream)) return std::nullopt;
  const auto in_buckets = network_.state().in_buckets(inputs);
  if (!in_buckets.ok()) return std::nullopt;  // the worker meets it again, and fails the job
  const std::optional<Network> network = network_.state().kept_for(*in_buckets);
  if (!network) return std::nullopt;
  Entry* const entry = opened(*network);
  if (entry == nullptr) return std::nullopt;
  auto taken = network_.inputs_of(*network, inputs);
  if (!taken.ok()) {
    release(entry);
    return taken.error();
  }
  std::vector<std::vector<Tensor>> runs;
  runs.push_back(std::move(*taken));
  PipelineState& pipeline = *entry->pipeline;
  auto job = when_room ? pipeline.submit_when_room(stream, std::move(runs), std::move(options))
                       : pipeline.submit(stream, std::move(runs), std::move(options));
  release(entry);
  if (!job.ok()) return job.error();
  submitted_.fetch_add(1, std::memory_order_relaxed);
  return handle(*job);
}

Status DynamicPipelineState::take_room(bool when_room) {
  if (jobs_->room().try_take()) return {};
  if (!when_room || in_own_thread()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} jobs were submitted before their network was there, which is the "
                             "most this pipeline holds; wait for some of them",
                             jobs_->room().places())};
  }
  jobs_->room().take();
  return {};
}

// The task has room; it gets its place in the stream.
Result<Job> DynamicPipelineState::wait_for_network(const std::shared_ptr<StreamState>& stream,
                                                   const std::vector<Tensor>& inputs,
                                                   SubmitOptions& options) {
  start();
  const bool watched = options.deadline.has_value() && *options.deadline < kForever;
  if (watched) TESSERA_RETURN_IF_ERROR(deadlines_.prepare());
  Waiting task{stream, jobs_->take(), inputs, {}, pipeline::now()};
  const JobReference job(task.job.get());
  task.options.deadline = options.deadline;
  task.options.payload = options.payload;
  task.options.skipped_stages = options.skipped_stages;
  task.options.priority = options.priority;
  const std::lock_guard lock(waiting_mutex_);
  waiting_.push_back(std::move(task));
  try {
    ++waiting_of_[stream.get()];
    stream->open(JobReference(job.get()), runtime_->next_task(), stream,
                 std::move(options.callback));
  } catch (...) {
    waiting_.pop_back();
    if (--waiting_of_[stream.get()] <= 0) waiting_of_.erase(stream.get());
    throw;
  }
  submitted_.fetch_add(1, std::memory_order_relaxed);
  if (watched) {
    deadlines_.watch(JobReference(job.get()),
                     waiting_.back().submitted + options.deadline->count());
  }
  changed_.notify_all();
  return handle(job);
}

void DynamicPipelineState::start() {
  const std::lock_guard lock(waiting_mutex_);
  if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
}

void DynamicPipelineState::work() {
  const pipeline::OwnThread mark(this);
  std::unique_lock lock(waiting_mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Waiting task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    begin(task);
    const StreamState* const stream = task.stream.get();
    lock.lock();
    const auto found = waiting_of_.find(stream);
    if (--found->second == 0) waiting_of_.erase(found);
    if (waiting_of_.empty()) none_waits_.notify_all();
    lock.unlock();
    task = {};  // what the application gave with it may go now
    lock.lock();
  }
}

// Its job is over, is in a pipeline, or has failed.
void DynamicPipelineState::begin(Waiting& task) {
  if (task.job->settled()) return task.job->packet_left();
  const Status status = guarded("compiling a model", [&] { return enter(task); });
  if (status.ok()) return;
  failed_shapes_.fetch_add(1, std::memory_order_relaxed);
  TaskError failed;
  failed.error = error_or_no_memory([&] { return status.error(); });
  failed.task = task.job->id();
  failed.sequence = task.job->sequence();
  settle(task, TaskOutcome(std::move(failed)));
}

void DynamicPipelineState::settle(const Waiting& task, TaskOutcome outcome) {
  const bool mine = task.job->claim(JobEnd::kPacket);
  task.job->packet_left();
  if (mine) task.job->settle(std::move(outcome), /*in_turn=*/true);
}

Status DynamicPipelineState::enter(Waiting& task) {
  TESSERA_TRY(const std::vector<Tensor> in_buckets, network_.state().in_buckets(task.inputs));
  TESSERA_TRY(const DynamicNetworkState::Made made, network_.state().made_for(in_buckets));
  if (made.stop) return run_in_parts(task);
  TESSERA_TRY(std::vector<Tensor> taken, network_.inputs_of(*made.network, task.inputs));
  TESSERA_TRY(Entry* const entry, take(*made.network));
  excess().clear();
  const Status entered = entry->pipeline->submit_opened(task.stream, task.job, std::move(taken),
                                                        task.options, task.submitted);
  release(entry);
  return entered;
}

// In a session of its own, on a device of the kind of the first one.
Status DynamicPipelineState::run_in_parts(Waiting& task) {
  const DeviceEntry* device = runtime_->devices().front().get();
  if (!options_.devices.empty()) {
    TESSERA_TRY(device, runtime_->find(options_.devices.front()));
  }
  if (!parts_) {
    TESSERA_TRY(parts_, DynamicSession::open(network_, {.device = device->kind()}));
  }
  TESSERA_TRY(RunResult run, parts_->run(task.inputs));
  ran_in_parts_.fetch_add(1, std::memory_order_relaxed);
  TaskResult result;
  result.runs.push_back(std::move(run.outputs));
  result.payload = task.options.payload;
  result.sequence = task.job->sequence();
  result.cycles = run.cycles;
  result.host_cycles = run.host_cycles;
  result.transfer_cycles = run.transfer_cycles;
  result.value_notes = std::move(run.value_notes);
  result.times.total = std::chrono::nanoseconds(pipeline::now() - task.submitted);
  settle(task, TaskOutcome(std::move(result)));
  return {};
}

void DynamicPipelineState::wait_until_done() {
  if (!runtime_->here()) return;
  {
    std::unique_lock lock(waiting_mutex_);
    none_waits_.wait(lock, [this] { return waiting_of_.empty(); });
  }
  std::vector<std::shared_ptr<PipelineState>> pipelines;
  {
    const std::lock_guard lock(mutex_);
    for (const Entry& entry : entries_) pipelines.push_back(entry.pipeline);
  }
  for (const auto& pipeline : pipelines) pipeline->wait_until_done();
  jobs_->wait_until_complete();
}

DynamicPipelineStatus DynamicPipelineState::status() {
  DynamicPipelineStatus status;
  status.pipelines_opened = opened_.load(std::memory_order_relaxed);
  status.submitted = submitted_.load(std::memory_order_relaxed);
  status.failed_shapes = failed_shapes_.load(std::memory_order_relaxed);
  status.ran_in_parts = ran_in_parts_.load(std::memory_order_relaxed);
  status.networks = network_.counters();
  {
    const std::lock_guard lock(waiting_mutex_);
    for (const auto& [stream, count] : waiting_of_) status.waiting += count;
  }
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
    return DynamicPipeline(std::shared_ptr<runtime::DynamicPipelineState>(
        new runtime::DynamicPipelineState(state_, network, options),
        runtime::delete_dynamic_pipeline));
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
