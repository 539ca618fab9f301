#include "tessera/growing_pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/guarded.h"
#include "base/process_mark.h"
#include "runtime/growing_rows.h"
#include "runtime/pipeline_state.h"
#include "runtime/runtime_state.h"
#include "runtime/stream.h"

namespace tessera::runtime {

// A stream and its rows. The stream lives as long as its jobs do; the rows go with this.
class GrowingSequence {
 public:
  GrowingSequence(std::shared_ptr<StreamState> of, std::shared_ptr<GrowingRows> its)
      : stream(std::move(of)), rows(std::move(its)) {
    stream->states() = StreamStates(rows);
  }
  ~GrowingSequence() {
    const std::lock_guard lock(stream->states_mutex());
    stream->states() = {};
  }
  GrowingSequence(const GrowingSequence&) = delete;
  GrowingSequence& operator=(const GrowingSequence&) = delete;

  const std::shared_ptr<StreamState> stream;  // shared with its jobs
  const std::shared_ptr<GrowingRows> rows;    // shared with the stream and its tasks
};

// Networks and their pipelines by capacity. A task enters that of its row's capacity; its turn on the rows is what keeps the
// tasks of a sequence in their order.
class GrowingPipelineState {
 public:
  GrowingPipelineState(std::shared_ptr<RuntimeState> runtime, GrowingModel model,
                       GrowingPipelineOptions options)
      : runtime_(std::move(runtime)),
        model_(std::make_shared<const GrowingModel>(std::move(model))),
        options_(std::move(options)) {}

  Status seat_devices();
  Result<std::shared_ptr<GrowingSequence>> open_sequence(const GrowingStreamOptions& options);
  Result<Job> submit(GrowingSequence& sequence, const std::vector<Tensor>& inputs,
                     const SubmitOptions& options, bool when_room);
  GrowingPipelineStatus status() const;
  void wait_until_done();
  Status check_process() const { return runtime_->check_process("pipeline"); }
  const GrowingModel& model() const { return *model_; }

 private:
  struct Capacity {
    std::int64_t rows = 0;
    Network network;
    std::shared_ptr<PipelineState> pipeline;  // shared with those that submit
  };
  // Sequences on a device.
  struct Seat {
    DeviceEntry* device = nullptr;
    std::shared_ptr<std::atomic<std::int64_t>> taken;  // shared with the sequences
  };

  Result<const Capacity*> capacity_with(std::int64_t rows, const std::vector<Tensor>& given);
  const Capacity* opened(std::int64_t rows) const;
  Result<const Seat*> seat_of(const std::string& device) const;
  std::optional<Result<JobReference>> try_submit(GrowingSequence& sequence,
                                                 const std::vector<Tensor>& inputs,
                                                 const SubmitOptions& options, bool when_room);

  const std::shared_ptr<RuntimeState> runtime_;      // shared by pipelines and models
  const std::shared_ptr<const GrowingModel> model_;  // shared with the sequences
  const GrowingPipelineOptions options_;
  std::vector<Seat> seats_;
  std::atomic<std::int64_t> submitted_{0};
  std::mutex opening_;        // one network at a time is compiled
  mutable std::mutex mutex_;  // of what follows
  std::map<std::int64_t, Capacity> capacities_;
};

Status GrowingPipelineState::seat_devices() {
  for (const auto& device : runtime_->devices()) {
    if (!options_.devices.empty() && !std::ranges::count(options_.devices, device->name())) {
      continue;
    }
    seats_.push_back({device.get(), std::make_shared<std::atomic<std::int64_t>>(0)});
  }
  for (const std::string& name : options_.devices) {
    TESSERA_RETURN_IF_ERROR(runtime_->find(name));
  }
  return {};
}

Result<const GrowingPipelineState::Seat*> GrowingPipelineState::seat_of(
    const std::string& device) const {
  if (device.empty()) {
    return &*std::ranges::min_element(
        seats_, {}, [](const Seat& seat) { return seat.taken->load(std::memory_order_relaxed); });
  }
  TESSERA_TRY(const DeviceEntry* const wanted, runtime_->find(device));
  const auto seat = std::ranges::find(seats_, wanted, &Seat::device);
  if (seat != seats_.end()) return &*seat;
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("device '{}' is none of the pipeline's", device)};
}

Result<std::shared_ptr<GrowingSequence>> GrowingPipelineState::open_sequence(
    const GrowingStreamOptions& options) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_TRY(const Seat* const seat, seat_of(options.device));
  seat->taken->fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<void> taken(
      nullptr, [count = seat->taken](void*) { count->fetch_sub(1, std::memory_order_relaxed); });
  auto rows = make_shared_here<GrowingRows>(
      model_, make_shared_here<MemoryState>(runtime_, *seat->device), std::move(taken));
  auto stream = make_shared_here<StreamState>(runtime_->next_stream(), options.stream);
  return make_shared_here<GrowingSequence>(std::move(stream), std::move(rows));
}

const GrowingPipelineState::Capacity* GrowingPipelineState::opened(std::int64_t rows) const {
  const std::lock_guard lock(mutex_);
  const auto found = capacities_.find(rows);
  return found == capacities_.end() ? nullptr : &found->second;
}

Result<const GrowingPipelineState::Capacity*> GrowingPipelineState::capacity_with(
    std::int64_t rows, const std::vector<Tensor>& given) {
  if (const Capacity* const capacity = opened(rows)) return capacity;
  const std::lock_guard opening(opening_);
  if (const Capacity* const capacity = opened(rows)) return capacity;
  TESSERA_TRY(Network network, model_->compile(rows, given));
  TESSERA_TRY(auto loaded, runtime_->load(network, options_.devices, false));
  PipelineOptions options = options_.pipeline;
  options.stages = default_stages(Model(std::move(loaded)));
  TESSERA_TRY(auto pipeline, PipelineState::open(runtime_, options));
  const std::lock_guard lock(mutex_);
  return &capacities_.emplace(rows, Capacity{rows, std::move(network), std::move(pipeline)})
              .first->second;
}

// Nothing: another thread was first with the row, or has taken the room.
std::optional<Result<JobReference>> GrowingPipelineState::try_submit(
    GrowingSequence& sequence, const std::vector<Tensor>& inputs, const SubmitOptions& options,
    bool when_room) {
  std::int64_t rows = 0;
  {
    const std::lock_guard lock(sequence.stream->states_mutex());
    if (const Status room = sequence.rows->check_room(); !room.ok()) return room.error();
    rows = model_->capacity_for(sequence.rows->rows());
  }
  const auto capacity = capacity_with(rows, inputs);
  if (!capacity.ok()) return capacity.error();
  const Network& network = (*capacity)->network;
  if (const Status fit = model_->check_shapes(network, rows, inputs); !fit.ok()) {
    return fit.error();
  }
  {
    const std::lock_guard lock(sequence.stream->states_mutex());
    if (const Status taken = sequence.rows->take_memory(network); !taken.ok()) {
      return taken.error();
    }
  }
  NetworkTask task;
  for (const TensorDescription& input : network.inputs()) {
    const GrowingPlace place = model_->input_place(input.name);
    if (place.kind == GrowingPlace::Kind::kCaller) task.inputs.emplace_back(inputs[place.index]);
  }
  auto job =
      (*capacity)->pipeline->submit_network(sequence.stream, std::move(task), options, when_room);
  const std::lock_guard lock(sequence.stream->states_mutex());
  const bool overtaken = !job.ok() && job.error().code == ErrorCode::kUnavailable &&
                         model_->capacity_for(sequence.rows->rows()) != rows;
  if (overtaken) return std::nullopt;
  return job;
}

Result<Job> GrowingPipelineState::submit(GrowingSequence& sequence,
                                         const std::vector<Tensor>& inputs,
                                         const SubmitOptions& options, bool when_room) {
  TESSERA_RETURN_IF_ERROR(check_process());
  TESSERA_RETURN_IF_ERROR(model_->check_given(inputs));
  if (!options.skipped_stages.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "a task of a sequence that skips stages, so that its row may be missing"};
  }
  auto job = try_submit(sequence, inputs, options, when_room);
  while (!job) job = try_submit(sequence, inputs, options, when_room);
  if (!job->ok()) return job->error();
  submitted_.fetch_add(1, std::memory_order_relaxed);
  (**job)->add_reference();
  return Job((**job).get());
}

GrowingPipelineStatus GrowingPipelineState::status() const {
  GrowingPipelineStatus status;
  status.submitted = submitted_.load(std::memory_order_relaxed);
  for (const Seat& seat : seats_) status.streams += seat.taken->load(std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  status.networks_compiled = std::ssize(capacities_);
  return status;
}

void GrowingPipelineState::wait_until_done() {
  if (!runtime_->here()) return;
  std::vector<std::shared_ptr<PipelineState>> pipelines;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [rows, capacity] : capacities_) pipelines.push_back(capacity.pipeline);
  }
  for (const auto& pipeline : pipelines) pipeline->wait_until_done();
}

}  // namespace tessera::runtime

namespace tessera {

Result<GrowingPipeline> Runtime::open_pipeline(const std::string& path,
                                               const GrowingOptions& growing,
                                               const GrowingPipelineOptions& options) {
  return guarded("opening a pipeline", [&]() -> Result<GrowingPipeline> {
    TESSERA_RETURN_IF_ERROR(usable());
    if (!options.pipeline.stages.empty()) {
      return Error{ErrorCode::kInvalidArgument,
                   "GrowingPipelineOptions::pipeline has stages; those of states that grow are "
                   "pre, execute and post of each network"};
    }
    TESSERA_TRY(runtime::GrowingModel model, runtime::GrowingModel::open(path, growing));
    auto state = make_shared_here<runtime::GrowingPipelineState>(state_, std::move(model), options);
    TESSERA_RETURN_IF_ERROR(state->seat_devices());
    return GrowingPipeline(std::move(state));
  });
}

const std::vector<DeclaredShape>& GrowingPipeline::inputs() const {
  return state_->model().inputs();
}
const std::vector<std::string>& GrowingPipeline::output_names() const {
  return state_->model().outputs();
}
Result<GrowingStream> GrowingPipeline::open_stream(const GrowingStreamOptions& options) {
  return guarded("opening a stream", [&]() -> Result<GrowingStream> {
    TESSERA_TRY(auto sequence, state_->open_sequence(options));
    return GrowingStream(state_, std::move(sequence));
  });
}
GrowingPipelineStatus GrowingPipeline::status() const { return state_->status(); }
void GrowingPipeline::wait_until_done() { state_->wait_until_done(); }

Result<Job> GrowingStream::submit(const std::vector<Tensor>& inputs, SubmitOptions options) {
  return guarded("submitting a task", [&] {
    return pipeline_->submit(*sequence_, inputs, options, /*when_room=*/false);
  });
}
Result<Job> GrowingStream::submit_when_room(const std::vector<Tensor>& inputs,
                                            SubmitOptions options) {
  return guarded("submitting a task", [&] {
    return pipeline_->submit(*sequence_, inputs, options, /*when_room=*/true);
  });
}
std::int64_t GrowingStream::rows() const {
  const std::lock_guard lock(sequence_->stream->states_mutex());
  return sequence_->rows->rows();
}
std::int64_t GrowingStream::capacity() const { return pipeline_->model().capacity_for(rows()); }
Status GrowingStream::keep_rows(std::int64_t rows) {
  return guarded("keeping rows", [&]() -> Status {
    TESSERA_RETURN_IF_ERROR(pipeline_->check_process());
    return sequence_->rows->keep_rows(rows, sequence_->stream->states_mutex());
  });
}
Status GrowingStream::clear() { return keep_rows(0); }
const std::string& GrowingStream::device() const { return sequence_->rows->device(); }
void GrowingStream::wait_until_done() { sequence_->stream->wait_until_done(); }
std::uint32_t GrowingStream::id() const { return sequence_->stream->id(); }

}  // namespace tessera
