// The handles of the public interface.
#include "tessera/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "base/guarded.h"
#include "metrics/exports.h"
#include "runtime/job.h"
#include "runtime/patience.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "runtime/stream.h"
#include "tessera/file.h"

namespace tessera {
namespace {

Job handle(const runtime::JobReference& job) {
  job->add_reference();
  return Job(job.get());
}

// Looks now and then, until the condition holds or `patience` is over.
template <typename Condition>
void look_until(std::chrono::nanoseconds patience, const Condition& condition) {
  const auto begin = std::chrono::steady_clock::now();
  while (!condition() && std::chrono::steady_clock::now() - begin < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TaskOutcome no_task() {
  TaskError error;
  error.error = {ErrorCode::kInvalidArgument, "this handle stands for no task"};
  return TaskOutcome(std::move(error));
}

}  // namespace

const char* task_failure_name(TaskFailure failure) {
  constexpr std::array kNames = {"none", "error", "cancelled", "deadline", "device", "mismatch"};
  return kNames[static_cast<std::size_t>(failure)];
}

const char* handover_name(Handover handover) {
  return handover == Handover::kFreeFlow ? "free-flow" : "lock-step";
}

Job::Job(const Job& other) : state_(other.state_) {
  if (state_ != nullptr) state_->add_reference();
}
Job::~Job() {
  if (state_ != nullptr) state_->drop_reference();
}

TaskOutcome Job::wait() {
  if (state_ == nullptr) return no_task();
  return *state_->wait(runtime::kForever);
}

std::optional<TaskOutcome> Job::wait_for(std::chrono::nanoseconds patience) {
  if (state_ == nullptr) return no_task();
  return state_->wait(patience);
}

bool Job::done() const { return state_ == nullptr || state_->is_over(); }
void Job::cancel() {
  if (state_ != nullptr) state_->cancel();
}
std::uint64_t Job::id() const { return state_ == nullptr ? 0 : state_->id(); }

Status Stream::usable() const { return pipeline_->check_process(); }
Status Pipeline::usable() const { return state_->check_process(); }
Status Runtime::usable() const { return state_->check_process("runtime"); }

std::optional<std::size_t> wait_any(std::span<const Job> jobs, std::chrono::nanoseconds patience) {
  runtime::JobListener listener;
  const auto first_done = [&]() -> std::optional<std::size_t> {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].done()) return i;
    }
    return std::nullopt;
  };
  if (jobs.empty()) return std::nullopt;
  bool listening = true;
  std::size_t count = 0;
  try {
    while (listening && count < jobs.size()) {
      runtime::JobState* const state = jobs[count].state();
      listening = state != nullptr && state->listen(&listener);
      if (listening) ++count;
    }
    if (listening) listener.wait(patience);
  } catch (const std::bad_alloc&) {  // no memory to be notified with
    look_until(patience, [&] { return first_done().has_value(); });
  }
  for (std::size_t i = 0; i < count; ++i) jobs[i].state()->forget(&listener);
  return first_done();
}

Result<Job> Stream::submit_runs(std::vector<std::vector<Tensor>> runs, SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit(state_, std::move(runs), std::move(options)));
    return handle(job);
  });
}

Result<Job> Stream::submit(std::vector<Tensor> inputs, SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    std::vector<std::vector<Tensor>> runs;
    runs.push_back(std::move(inputs));
    return submit_runs(std::move(runs), std::move(options));
  });
}

Result<Job> Stream::submit_when_room(std::vector<Tensor> inputs, SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    std::vector<std::vector<Tensor>> runs;
    runs.push_back(std::move(inputs));
    return submit_runs_when_room(std::move(runs), std::move(options));
  });
}

Result<Job> Stream::submit_runs_when_room(std::vector<std::vector<Tensor>> runs,
                                          SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_when_room(state_, std::move(runs), std::move(options)));
    return handle(job);
  });
}

Result<std::vector<Job>> Stream::submit_batch(std::vector<std::vector<Tensor>> tasks,
                                              const SubmitOptions& options) {
  return guarded("submitting tasks", [&]() -> Result<std::vector<Job>> {
    // First of all, so that a wrong one is reported before any is submitted.
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const Status status = pipeline_->check_runs({&tasks[i], 1}, options.skipped_stages);
      if (!status.ok()) return status.error().with_context(fmt::format("task {}", i));
    }
    std::vector<Job> jobs;
    for (std::vector<Tensor>& inputs : tasks) {
      TESSERA_TRY(Job job, submit_when_room(std::move(inputs), options));
      jobs.push_back(std::move(job));
    }
    return jobs;
  });
}

Result<Job> Stream::submit_network(NetworkTask task, SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_network(state_, std::move(task), std::move(options),
                                          /*when_room=*/false));
    return handle(job);
  });
}
Result<Job> Stream::submit_network_when_room(NetworkTask task, SubmitOptions options) {
  return guarded("submitting a task", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_network(state_, std::move(task), std::move(options),
                                          /*when_room=*/true));
    return handle(job);
  });
}
Status Stream::bind_states(const Memory& memory, const std::vector<StateBinding>& bindings) {
  return guarded("binding states",
                 [&] { return pipeline_->bind_states(*state_, memory, bindings); });
}

Result<Job> Stream::submit_layer(const Layers& layers, const LayerTask& task,
                                 SubmitOptions options) {
  return guarded("submitting a layer", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_layer(state_, layers.state(), task, std::move(options),
                                        /*when_room=*/false));
    return handle(job);
  });
}
Result<Job> Stream::submit_layer_when_room(const Layers& layers, const LayerTask& task,
                                           SubmitOptions options) {
  return guarded("submitting a layer", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_layer(state_, layers.state(), task, std::move(options),
                                        /*when_room=*/true));
    return handle(job);
  });
}

Result<Job> Stream::submit_operation(const OperationTask& task, SubmitOptions options) {
  return guarded("submitting an operation", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_operation(state_, task, std::move(options),
                                            /*when_room=*/false));
    return handle(job);
  });
}
Result<Job> Stream::submit_operation_when_room(const OperationTask& task, SubmitOptions options) {
  return guarded("submitting an operation", [&]() -> Result<Job> {
    TESSERA_TRY(const runtime::JobReference job,
                pipeline_->submit_operation(state_, task, std::move(options),
                                            /*when_room=*/true));
    return handle(job);
  });
}

bool Stream::wait_for_room(std::chrono::nanoseconds patience) {
  return pipeline_->wait_for_room(patience);
}
bool Stream::would_wait_for_itself() const { return pipeline_->called_from_inside(); }
void Stream::wait_until_done() {
  if (pipeline_->check_process().ok()) state_->wait_until_done();
}
std::uint32_t Stream::id() const { return state_->id(); }

const Network& Model::network() const { return state_->network; }
const std::vector<TensorDescription>& Model::device_inputs() const {
  return state_->device_inputs();
}
const std::vector<TensorDescription>& Model::device_outputs() const {
  return state_->device_outputs();
}

std::vector<StageOptions> default_stages(const Model& model) {
  return {{.kind = StageKind::kPre, .model = model},
          {.kind = StageKind::kExecute, .model = model},
          {.kind = StageKind::kPost, .model = model}};
}

Stream Pipeline::open_stream(const StreamOptions& options) {
  return Stream(state_, state_->open_stream(options));
}
PipelineStatus Pipeline::status() const { return state_->status(); }
Status Pipeline::set_threads(const std::string& stage, int threads) {
  return guarded("setting threads",
                 [&]() -> Status { return state_->set_threads(stage, threads); });
}
Status Pipeline::set_kernels(const std::string& stage, int kernels) {
  return guarded("setting kernels",
                 [&]() -> Status { return state_->set_kernels(stage, kernels); });
}
// Where the system has no thread for it, the status goes on saying that it is off.
void Pipeline::set_tuning(bool on) {
  (void)guarded("", [&] { return state_->set_tuning(on); });
}
void Pipeline::set_debug(const DebugOptions& debug) { state_->set_debug(debug); }
void Pipeline::wait_until_done() { state_->wait_until_done(); }

Result<Runtime> Runtime::open(const RuntimeOptions& options) {
  return guarded("opening a runtime", [&]() -> Result<Runtime> {
    TESSERA_TRY(auto state, runtime::RuntimeState::open(options));
    return Runtime(std::move(state));
  });
}

Result<Model> Runtime::load(const Network& network, const std::vector<std::string>& devices) {
  return guarded("loading a network", [&]() -> Result<Model> {
    TESSERA_TRY(auto model, state_->load(network, devices, false));
    return Model(std::move(model));
  });
}

Result<Model> Runtime::load_in_device_form(const Network& network,
                                           const std::vector<std::string>& devices) {
  return guarded("loading a network", [&]() -> Result<Model> {
    TESSERA_TRY(auto model, state_->load(network, devices, true));
    return Model(std::move(model));
  });
}

Result<Pipeline> Runtime::open_pipeline(const Model& model, PipelineOptions options) {
  return guarded("opening a pipeline", [&]() -> Result<Pipeline> {
    if (options.stages.empty()) options.stages = default_stages(model);
    return open_pipeline(std::move(options));
  });
}

Result<Pipeline> Runtime::open_pipeline(PipelineOptions options) {
  return guarded("opening a pipeline", [&]() -> Result<Pipeline> {
    TESSERA_TRY(auto state, runtime::PipelineState::open(state_, options));
    return Pipeline(std::move(state));
  });
}

Result<Pipeline> Runtime::open_operations(PipelineOptions options) {
  return guarded("opening a pipeline", [&]() -> Result<Pipeline> {
    TESSERA_TRY(auto state,
                runtime::PipelineState::open_for_operations(state_, std::move(options)));
    return Pipeline(std::move(state));
  });
}

Result<Memory> Runtime::open_memory(const std::string& device) {
  return guarded("opening a device's memory", [&]() -> Result<Memory> {
    TESSERA_TRY(runtime::DeviceEntry* const entry, state_->find(device));
    return Memory(make_shared_here<runtime::MemoryState>(state_, *entry));
  });
}

Result<Layers> Runtime::load_layers(const Network& network, const Memory& memory) {
  return guarded("loading layers", [&]() -> Result<Layers> {
    TESSERA_TRY(auto layers, runtime::LayersState::load(memory.state(), network));
    return Layers(std::move(layers));
  });
}

std::span<std::byte> Block::bytes() const { return state_->block.host; }
Format Block::format() const { return state_->format; }
const Shape& Block::dims() const { return state_->dims; }
const Shape& Block::dense_dims() const { return state_->dense_dims; }
const std::string& Block::device() const { return state_->entry().name(); }
Status Block::wrote() {
  return guarded("bytes to the device", [this] { return state_->host_wrote(); });
}
Status Block::fetch() {
  return guarded("bytes from the device", [this] { return state_->fetch(); });
}

Result<Block> Memory::allocate(std::int64_t bytes) {
  return guarded("allocating a block", [&]() -> Result<Block> {
    TESSERA_TRY(auto block, runtime::BlockState::allocate(state_, Bytes{bytes}));
    return Block(std::move(block));
  });
}
Result<Block> Memory::allocate(const TensorDescription& tensor) {
  return guarded("allocating a block", [&]() -> Result<Block> {
    TESSERA_TRY(auto block, runtime::BlockState::allocate(state_, tensor));
    return Block(std::move(block));
  });
}
Result<Block> Memory::upload(Tensor tensor) {
  return guarded("allocating a block", [&]() -> Result<Block> {
    const auto kept = std::make_shared<Tensor>(std::move(tensor));
    return wrap(kept->bytes, {"", kept->format, kept->dims}, kept);
  });
}
Result<Block> Memory::wrap(std::span<std::byte> bytes, const TensorDescription& tensor,
                           std::shared_ptr<void> owner) {
  return guarded("wrapping memory", [&]() -> Result<Block> {
    TESSERA_TRY(auto block, runtime::BlockState::wrap(state_, bytes, tensor, std::move(owner)));
    return Block(std::move(block));
  });
}
const std::string& Memory::device() const { return state_->entry.name(); }
const std::vector<Layer>& Layers::list() const { return state_->list; }

std::vector<DeviceStatus> Runtime::devices() const {
  std::vector<DeviceStatus> list;
  const Status process = usable();
  for (const auto& entry : state_->devices()) {
    if (process.ok()) {
      list.push_back(entry->status());
      continue;
    }
    DeviceStatus gone;
    gone.name = entry->name();
    gone.kind = entry->kind();
    gone.healthy = false;
    gone.fault = process.error().message;
    list.push_back(std::move(gone));
  }
  return list;
}

Status Runtime::write_trace(const std::string& path) const {
  return guarded("writing a trace", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(usable());
    state_->collector().drain();
    return write_text_file(path, metrics::perfetto_text(state_->collector().recent_events(),
                                                        state_->recorder().sources()));
  });
}

Status Runtime::write_events(const std::string& path) const {
  return guarded("writing events", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(usable());
    state_->collector().drain();
    return write_text_file(path, metrics::json_lines_text(state_->collector().recent_events(),
                                                          state_->recorder().sources()));
  });
}

std::string Runtime::prometheus() const {
  if (!usable().ok()) return "";
  return metrics::prometheus_text(state_->collector().snapshot());
}

}  // namespace tessera
