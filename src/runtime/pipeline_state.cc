#include "runtime/pipeline_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/application_call.h"
#include "base/guarded.h"
#include "pipeline/own_thread.h"
#include "runtime/delete_elsewhere.h"
#include "runtime/host_stages.h"
#include "runtime/network_packet.h"
#include "runtime/operation_packet.h"
#include "runtime/operation_stages.h"

namespace tessera::runtime {
namespace {

using pipeline::Nanoseconds;

constexpr std::size_t kJobsMax = 1U << 20U;
constexpr std::size_t kCapacity = 16;    // tasks in front of a stage
constexpr std::size_t kKernelBatch = 8;  // in lock step
constexpr int kWaitingMax = 16;          // short runs that wait on a kernel
constexpr std::size_t kHostBatch = 32;
constexpr Nanoseconds kHostGrain = 50'000;

const char* default_name(StageKind kind) {
  switch (kind) {
    case StageKind::kHost:
      return "host";
    case StageKind::kPre:
      return "pre";
    case StageKind::kExecute:
      return "execute";
    case StageKind::kPost:
      break;
  }
  return "post";
}

Error wrong_stage(const std::string& name, const std::string& what) {
  return {ErrorCode::kInvalidArgument, fmt::format("stage '{}': {}", name, what)};
}

// Of a stage pre; null for another one.
const ModelState* model_of_pre(const StageOptions* stage) {
  const bool pre = stage != nullptr && stage->kind == StageKind::kPre && stage->model.has_value();
  return pre ? stage->model->state().get() : nullptr;
}

// The last execute stage makes the task's outputs; those of another one stay on the device where
// only stages of networks lie between it and the next, and the next may take all there are: in lock
// step it is given some.
OutputRules rules_of(const PipelineOptions& options, std::size_t index) {
  OutputRules rules;
  bool between = options.handover == Handover::kFreeFlow;
  for (std::size_t next = index + 1; next < options.stages.size(); ++next) {
    const StageKind kind = options.stages[next].kind;
    if (kind == StageKind::kHost) between = false;
    if (kind != StageKind::kExecute) continue;
    if (rules.later == 0 && between) {
      rules.chained = true;
      rules.next = next;
    }
    rules.later |= 1U << next;
  }
  for (std::size_t before = 0; before < index && !rules.reads_chained; ++before) {
    if (options.stages[before].kind != StageKind::kExecute) continue;
    const OutputRules rules_before = rules_of(options, before);
    rules.reads_chained = rules_before.chained && rules_before.next == index;
  }
  return rules;
}

Status check_options(const PipelineOptions& options) {
  if (options.stages.empty() || options.stages.size() > pipeline::kStagesMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a pipeline of {} stages; allowed 1 to {}", options.stages.size(),
                             pipeline::kStagesMax)};
  }
  if (options.debug.every < 1) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("debugging one of every {} tasks; allowed 1 and more", options.debug.every)};
  }
  if (options.jobs_max < 1 || options.jobs_max > kJobsMax) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} jobs in flight; allowed 1 to {}", options.jobs_max, kJobsMax)};
  }
  return {};
}

TaskFailure public_failure(pipeline::Failure failure) {
  switch (failure) {
    case pipeline::Failure::kNone:
      return TaskFailure::kNone;
    case pipeline::Failure::kError:
      return TaskFailure::kError;
    case pipeline::Failure::kCancelled:
      return TaskFailure::kCancelled;
    case pipeline::Failure::kDeadline:
      return TaskFailure::kDeadline;
    case pipeline::Failure::kDevice:
      return TaskFailure::kDevice;
    case pipeline::Failure::kMismatch:
      break;
  }
  return TaskFailure::kMismatch;
}

// A pipeline waits for its threads. In a process that was forked off it has none.
void delete_pipeline(PipelineState* state) {
  if (state->check_process().ok()) delete_elsewhere(state);
}

metrics::SourceId add_source(metrics::Recorder& recorder,
                             const metrics::SourceDescription& description) {
  const auto id = recorder.add_source(description);
  return id.ok() ? *id : metrics::SourceId{};
}

}  // namespace

PipelineState::PipelineState(std::shared_ptr<RuntimeState> runtime, const PipelineOptions& options,
                             PacketKind kind)
    : runtime_(std::move(runtime)),
      kind_(kind),
      recorder_start_(pipeline::now() - runtime_->recorder().now()),
      tuning_log_(options.tuning_log),
      debugging_(options.debug),
      tasks_source_(
          add_source(runtime_->recorder(), {.kind = metrics::SourceKind::kTasks, .name = "tasks"})),
      jobs_(JobPool::make(options.jobs_max, this)),
      packets_([kind]() -> std::unique_ptr<pipeline::Packet> {
        if (kind == PacketKind::kNetwork) return std::make_unique<NetworkPacket>();
        return std::make_unique<OperationPacket>();
      }) {}

Result<std::shared_ptr<PipelineState>> PipelineState::open(std::shared_ptr<RuntimeState> runtime,
                                                           const PipelineOptions& options) {
  TESSERA_RETURN_IF_ERROR(runtime->check_process("runtime"));
  TESSERA_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<PipelineState> state(
      new PipelineState(std::move(runtime), options, PacketKind::kNetwork));
  std::vector<pipeline::StageConfig> stages;
  for (std::size_t s = 0; s < options.stages.size(); ++s) {
    TESSERA_TRY(pipeline::StageConfig made, state->make_stage(options, s));
    stages.push_back(std::move(made));
  }
  return start(std::move(state), options, std::move(stages));
}

Result<std::shared_ptr<PipelineState>> PipelineState::open_for_operations(
    std::shared_ptr<RuntimeState> runtime, PipelineOptions options) {
  TESSERA_RETURN_IF_ERROR(runtime->check_process("runtime"));
  options.stages.resize(3);
  TESSERA_RETURN_IF_ERROR(check_options(options));
  std::unique_ptr<PipelineState> state(
      new PipelineState(std::move(runtime), options, PacketKind::kOperation));
  std::vector<pipeline::StageConfig> stages;
  const auto add = [&](StageKind kind, int threads,
                       std::shared_ptr<pipeline::StageFunction> function) {
    pipeline::StageConfig config;
    config.threads = threads;
    config.capacity = stages.empty() ? options.jobs_max : kCapacity;
    config.function = std::move(function);
    stages.push_back(state->register_stage({default_name(kind), kind, {}, {}, {}, {}}, config));
  };
  add(StageKind::kPre, 1, make_operation_pre_stage());
  add(StageKind::kExecute, 2, make_operation_stage());
  add(StageKind::kPost, 1, make_operation_post_stage());
  return start(std::move(state), options, std::move(stages));
}

Result<std::shared_ptr<PipelineState>> PipelineState::start(
    std::unique_ptr<PipelineState> state, const PipelineOptions& options,
    std::vector<pipeline::StageConfig> stages) {
  pipeline::PipelineConfig config;
  config.stages = std::move(stages);
  config.handover = options.handover == Handover::kFreeFlow ? pipeline::FlowKind::kFreeFlow
                                                            : pipeline::FlowKind::kLockStep;
  config.sink = state.get();
  config.observer = state.get();
  TESSERA_TRY(state->pipeline_, pipeline::PacketPipeline::create(std::move(config)));
  TESSERA_RETURN_IF_ERROR(state->set_tuning(options.tune));
  return std::shared_ptr<PipelineState>(state.release(), delete_pipeline);
}

PipelineState::~PipelineState() {
  (void)tuner_.set_on(false);  // which cannot fail
  wait_until_none_waits();
  // What is inside still reports to this object, by way of pipeline_.
  if (pipeline_ != nullptr) pipeline_->wait_until_empty();
  jobs_->wait_until_complete();  // ending a job sweeps the pipeline for its packet
  deadlines_.stop();
  pipeline_.reset();
}

Result<pipeline::StageConfig> PipelineState::make_stage(const PipelineOptions& options,
                                                        std::size_t index) {
  const StageOptions& stage = options.stages[index];
  const StageOptions* const next =
      index + 1 < options.stages.size() ? &options.stages[index + 1] : nullptr;
  StageEntry entry{
      stage.name.empty() ? default_name(stage.kind) : stage.name, stage.kind, {}, {}, {}, {}};
  if (index_of(entry.name).ok()) {
    return wrong_stage(entry.name, "there are two of this name; give each a name of its own");
  }
  if ((stage.kind == StageKind::kHost) != (stage.function != nullptr)) {
    return wrong_stage(entry.name, "a host stage has a function, and no other stage has one");
  }
  if ((stage.kind == StageKind::kHost) == stage.model.has_value()) {
    return wrong_stage(entry.name, "pre, execute and post belong to a model, a host stage to none");
  }
  const bool takes_inputs = stage.kind == StageKind::kPre || stage.kind == StageKind::kExecute;
  if (takes_inputs) entry.model = stage.model->state();
  pipeline::StageConfig config;
  config.threads = stage.threads;
  // The first stage holds all tasks, so that submitting does not wait.
  config.capacity = stages_.empty()      ? options.jobs_max
                    : stage.capacity > 0 ? stage.capacity
                                         : kCapacity;
  config.batch = stage.batch;
  if (stage.batch == 0 && stage.kind != StageKind::kExecute) {
    config.batch = kHostBatch;
    config.grain = kHostGrain;
  }
  switch (stage.kind) {
    case StageKind::kHost:
      config.function = make_host_stage(stage.function);
      break;
    case StageKind::kPre:
      config.function = make_pre_stage(stage.model->state());
      break;
    case StageKind::kPost:
      config.function = make_post_stage(stage.model->state(), model_of_pre(next));
      break;
    case StageKind::kExecute: {
      if (first_model_ == nullptr) first_model_ = stage.model->state();
      last_model_ = stage.model->state();
      const int waiting_max = options.hint == Hint::kThroughput ? kWaitingMax : 1;
      TESSERA_TRY(entry.execute, ExecuteStage::create(stage.model->state(),
                                                      {.devices = stage.devices,
                                                       .rules = rules_of(options, index),
                                                       .waiting_max = waiting_max},
                                                      debugging_, deadlines_));
      config.keeper = entry.execute;
      if (config.threads == 0) {
        config.threads = std::min(2 * entry.execute->kernels_max(), pipeline::kThreadsMax);
      }
      if (stage.batch == 0) config.batch = options.hint == Hint::kThroughput ? kKernelBatch : 1;
      break;
    }
  }
  if (config.threads == 0) config.threads = 1;
  return register_stage(std::move(entry), std::move(config));
}

// Notes the stage and its queue as sources of metrics.
pipeline::StageConfig PipelineState::register_stage(StageEntry entry,
                                                    pipeline::StageConfig config) {
  config.name = entry.name;
  entry.source = add_source(
      runtime_->recorder(),
      {.kind = metrics::SourceKind::kStage, .name = entry.name, .threads = config.threads});
  entry.queue = add_source(runtime_->recorder(), {.kind = metrics::SourceKind::kQueue,
                                                  .name = entry.name,
                                                  .capacity = static_cast<int>(config.capacity)});
  stages_.push_back(std::move(entry));
  return config;
}

Result<std::size_t> PipelineState::index_of(const std::string& stage) const {
  std::string known;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    if (stages_[s].name == stage) return s;
    known += (s == 0 ? "" : ", ") + stages_[s].name;
  }
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("there is no stage '{}'; there are {}", stage, known)};
}

std::shared_ptr<StreamState> PipelineState::open_stream(const StreamOptions& options) {
  return make_shared_here<StreamState>(runtime_->next_stream(), options);
}

void PipelineState::begins(std::size_t stage, Nanoseconds begin) {
  runtime_->recorder().begin_work(stages_[stage].source, begin - recorder_start_);
}

void PipelineState::keeps(std::size_t stage, pipeline::Packet& packet) {
  packet.open_work =
      runtime_->recorder().open_work(stages_[stage].source, packet.queued_since - recorder_start_);
}

void PipelineState::kept(std::size_t stage, Nanoseconds begin, Nanoseconds end,
                         pipeline::Packet& packet) {
  metrics::Recorder& recorder = runtime_->recorder();
  recorder.close_work(stages_[stage].source, std::exchange(packet.open_work, -1));
  recorder.record({.kind = metrics::EventKind::kStageRun,
                   .source = stages_[stage].source,
                   .stream = packet.header.stream,
                   .begin_ns = begin - recorder_start_,
                   .end_ns = end - recorder_start_,
                   .packet = packet.header.id,
                   .value = packet.times[stage].queued});
}

void PipelineState::queue_changed(std::size_t stage, Nanoseconds at, std::size_t depth) {
  runtime_->recorder().record({.kind = metrics::EventKind::kQueueDepth,
                               .source = stages_[stage].queue,
                               .begin_ns = at - recorder_start_,
                               .end_ns = at - recorder_start_,
                               .value = static_cast<std::int64_t>(depth)});
}

void PipelineState::ran(std::size_t stage, Nanoseconds begin, Nanoseconds end,
                        std::span<const pipeline::PacketPtr> batch) {
  metrics::Recorder& recorder = runtime_->recorder();
  if (!recorder.recording()) return recorder.end_work();
  // A batch is one piece of a thread's time: each packet has its part of it.
  const auto size = static_cast<Nanoseconds>(batch.size());
  Nanoseconds part_begin = begin - recorder_start_;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const Nanoseconds part_end =
        begin - recorder_start_ + (end - begin) * static_cast<Nanoseconds>(i + 1) / size;
    const pipeline::PacketPtr& packet = batch[i];
    recorder.record({.kind = metrics::EventKind::kStageRun,
                     .source = stages_[stage].source,
                     .stream = packet->header.stream,
                     .begin_ns = part_begin,
                     .end_ns = part_end,
                     .packet = packet->header.id,
                     .value = packet->times[stage].queued});
    part_begin = part_end;
  }
  recorder.end_work();
}

TaskOutcome PipelineState::outcome_of(TaskPacket& packet, Nanoseconds now) const {
  if (packet.failure != pipeline::Failure::kNone) {
    TaskError error;
    error.failure = public_failure(packet.failure);
    error.error = packet.error;
    error.task = packet.header.id;
    error.sequence = packet.header.sequence;
    error.stage = stages_[packet.failed_stage].name;
    if (packet.device != nullptr) error.device = *packet.device;
    error.layer = packet.layer;
    return TaskOutcome(std::move(error));
  }
  TaskResult result;
  packet.give(result);
  result.sequence = packet.header.sequence;
  result.cycles = packet.cycles;
  result.host_cycles = packet.host_cycles;
  result.transfer_cycles =
      std::max<std::int64_t>(0, packet.transfer_cycles - packet.transfer_cycles_saved);
  result.value_notes = std::move(packet.value_notes);
  if (packet.device != nullptr) result.device = *packet.device;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    result.times.stages[s] = {std::chrono::nanoseconds(packet.times[s].queued),
                              std::chrono::nanoseconds(packet.times[s].busy)};
  }
  result.times.transfer_in = std::chrono::nanoseconds(packet.transfer_in);
  result.times.kernel = std::chrono::nanoseconds(packet.kernel);
  result.times.transfer_out = std::chrono::nanoseconds(packet.transfer_out);
  result.times.total = std::chrono::nanoseconds(now - packet.header.submitted);
  return TaskOutcome(std::move(result));
}

TaskOutcome PipelineState::outcome_or_no_memory(TaskPacket& packet, Nanoseconds now) const {
  try {
    return outcome_of(packet, now);
  } catch (...) {
    TaskError error;
    if (packet.failure != pipeline::Failure::kNone) error.failure = public_failure(packet.failure);
    error.error = thrown_error("");
    error.task = packet.header.id;
    error.sequence = packet.header.sequence;
    return TaskOutcome(std::move(error));
  }
}

metrics::Outcome PipelineState::count_end(JobEnd end, pipeline::Failure failure) {
  const bool by_packet = end == JobEnd::kPacket;
  const bool cancelled =
      by_packet ? failure == pipeline::Failure::kCancelled : end == JobEnd::kCancel;
  const bool late = by_packet ? failure == pipeline::Failure::kDeadline : end == JobEnd::kClock;
  const bool good = by_packet && failure == pipeline::Failure::kNone;
  (good        ? succeeded_
   : cancelled ? cancelled_
   : late      ? late_
               : failed_)
      .fetch_add(1, std::memory_order_relaxed);
  return good        ? metrics::Outcome::kOk
         : cancelled ? metrics::Outcome::kCancelled
                     : metrics::Outcome::kFailed;
}

void PipelineState::end_turn(TaskPacket& packet) {
  if (packet.failure == pipeline::Failure::kNone) {
    const Status delivered = guarded("handing over the outputs", [&] { return packet.deliver(); });
    if (!delivered.ok()) {
      packet.fail(pipeline::Failure::kError, error_or_no_memory([&] { return delivered.error(); }));
      packet.failed_stage = static_cast<std::uint8_t>(stages_.size() - 1);
    }
  }
  if (packet.turn == nullptr) return;
  if (packet.failure != pipeline::Failure::kNone) {
    for (const BlockClaim::Use& use : packet.turn->uses) {
      if (!use.writes) continue;
      use.block->invalidate(guarded("a task that failed", [&]() -> Status {
        return packet.error.with_context(
            fmt::format("task {}, which was to write it, failed", packet.header.id));
      }));
    }
  }
  if (packet.turn->retained) return runtime_->retained_turns().retain(std::move(packet.turn));
  runtime_->block_order().leave(*packet.turn);
  // A device may release it later, and is not to keep them.
  packet.turn->uses.clear();
}

void PipelineState::finished(pipeline::PacketPtr packet) {
  auto& task = static_cast<TaskPacket&>(*packet);
  end_turn(task);
  const Nanoseconds now = pipeline::now();
  const JobReference job = std::move(task.job);
  // A job that the caller's cancel or the clock ended first counts as what it ended as.
  const bool mine = job->claim(JobEnd::kPacket);
  std::optional<TaskOutcome> outcome;
  if (mine) {
    outcome = outcome_or_no_memory(task, now);
    if (!outcome->ok() && task.failure == pipeline::Failure::kNone) {
      task.failure = pipeline::Failure::kError;
    }
  }
  const metrics::Outcome ended = count_end(job->end(), task.failure);
  runtime_->recorder().record({.kind = metrics::EventKind::kTaskCompleted,
                               .outcome = ended,
                               .source = tasks_source_,
                               .stream = task.header.stream,
                               .begin_ns = task.header.submitted - recorder_start_,
                               .end_ns = now - recorder_start_,
                               .packet = task.header.id});
  if (!mine) {
    packet.reset();
    job->packet_left();
    inside_.fetch_sub(1, std::memory_order_release);
    return;
  }
  const bool in_turn =
      task.failure != pipeline::Failure::kCancelled && task.failure != pipeline::Failure::kDeadline;
  packet.reset();
  job->packet_left();
  job->settle(std::move(*outcome), in_turn);
  inside_.fetch_sub(1, std::memory_order_release);
}

void PipelineState::job_ended() { pipeline_->sweep(); }

void PipelineState::job_overruled(JobEnd end, bool good) {
  (good ? succeeded_ : failed_).fetch_sub(1, std::memory_order_relaxed);
  (end == JobEnd::kCancel ? cancelled_ : late_).fetch_add(1, std::memory_order_relaxed);
}

void PipelineState::wait_until_done() {
  if (!runtime_->here()) return;
  wait_until_none_waits();
  pipeline_->wait_until_empty();
  // Those whose callbacks another thread is calling: one that cancelled a job, say.
  jobs_->wait_until_complete();
}

PipelineStatus PipelineState::status() {
  PipelineStatus status;
  if (!runtime_->here()) return status;
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const pipeline::StageCounters counters = pipeline_->counters(s);
    const auto& execute = stages_[s].execute;
    status.stages.push_back({.name = stages_[s].name,
                             .kind = stages_[s].kind,
                             .threads = counters.threads,
                             .running = counters.running,
                             .kernels = execute == nullptr ? 0 : execute->kernels(),
                             .queued = counters.queued,
                             .capacity = counters.capacity,
                             .tasks = counters.packets,
                             .batches = counters.batches,
                             .busy = std::chrono::nanoseconds(counters.busy),
                             .thread_time = std::chrono::nanoseconds(counters.thread_time)});
  }
  status.in_flight = jobs_->room().taken();
  status.jobs_max = jobs_->room().places();
  status.submitted = submitted_.load();
  status.succeeded = succeeded_.load();
  status.failed = failed_.load();
  status.cancelled = cancelled_.load();
  status.late = late_.load();
  status.compared = debugging_.compared.load();
  status.mismatches = debugging_.mismatches.load();
  status.tuning = tuning_.load();
  status.debug = debugging_.mode();
  status.callbacks_threw = jobs_->thrown();
  status.callback_error = jobs_->last_thrown();
  return status;
}

Status PipelineState::set_threads(const std::string& stage, int threads) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_TRY(const std::size_t index, index_of(stage));
  TESSERA_RETURN_IF_ERROR(pipeline_->set_threads(index, threads));
  runtime_->recorder().set_threads(stages_[index].source, threads);
  return {};
}

Status PipelineState::set_kernels(const std::string& stage, int kernels) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_TRY(const std::size_t index, index_of(stage));
  const auto& execute = stages_[index].execute;
  if (execute == nullptr) {
    return wrong_stage(stage, "only execute stages have kernels");
  }
  if (kernels < 1 || kernels > execute->kernels_max()) {
    return wrong_stage(stage, fmt::format("{} kernels; its devices have {}, allowed 1 to {}",
                                          kernels, execute->kernels_max(), execute->kernels_max()));
  }
  execute->set_kernels(kernels);
  return {};
}

void PipelineState::set_debug(const DebugOptions& debug) {
  if (runtime_->here()) debugging_.set(debug);
}

Status PipelineState::set_tuning(bool on) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_RETURN_IF_ERROR(tuner_.set_on(on));
  tuning_.store(on, std::memory_order_relaxed);
  return {};
}

PeriodLoad PipelineState::totals() {
  PeriodLoad load;
  load.seconds = 1e-9 * static_cast<double>(pipeline::now());
  load.finished = succeeded_.load(std::memory_order_relaxed);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    const pipeline::StageCounters counters = pipeline_->counters(s);
    StageLoad stage;
    stage.name = stages_[s].name;
    stage.threads = counters.threads;
    stage.threads_max = pipeline::kThreadsMax;
    stage.busy_seconds = 1e-9 * static_cast<double>(counters.busy);
    stage.thread_seconds = 1e-9 * static_cast<double>(counters.thread_time);
    stage.tasks = counters.packets;
    if (const auto& execute = stages_[s].execute) {
      stage.kernels = execute->kernels();
      stage.threads_max = 4 * stage.kernels;
      stage.kernel_seconds = 1e-9 * static_cast<double>(execute->kernel_time());
    }
    load.stages.push_back(std::move(stage));
  }
  return load;
}

void PipelineState::change(const ThreadChange& change) {
  (void)set_threads(stages_[change.stage].name, change.threads);
  if (!tuning_log_) return;
  const Status told = call_application("the tuning log", [&] { tuning_log_(change.reason); });
  if (!told.ok()) jobs_->note_thrown(told.error());
}

}  // namespace tessera::runtime
