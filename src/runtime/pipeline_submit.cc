// How tasks enter a pipeline: room, the packet of their kind, their place in the stream.
#include <fmt/format.h>

#include <algorithm>

#include "base/guarded.h"
#include "pipeline/own_thread.h"
#include "runtime/check_inputs.h"
#include "runtime/network_packet.h"
#include "runtime/operation_packet.h"
#include "runtime/patience.h"
#include "runtime/pipeline_state.h"

namespace tessera::runtime {
namespace {

// Blocks must have exactly the bytes of what they stand for.
Status check_block(const Block& block, std::int64_t bytes, const std::string& what) {
  const auto found = static_cast<std::int64_t>(block.bytes().size());
  if (found == bytes) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("{} has {} bytes, its block {}", what, bytes, found)};
}

Status check_layer_task(const LayersState& layers, const LayerTask& task) {
  if (task.layer >= layers.list.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("layer {} of a network of {}", task.layer, layers.list.size())};
  }
  const Layer& layer = layers.list[task.layer];
  const auto check = [&](const std::vector<Block>& blocks,
                         const std::vector<TensorDescription>& tensors,
                         const char* what) -> Status {
    if (blocks.size() != tensors.size()) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("layer '{}' has {} {}, {} blocks were given", layer.name,
                               tensors.size(), what, blocks.size())};
    }
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const std::int64_t bytes = element_count(tensors[i].dims) * format_bytes(tensors[i].format);
      TESSERA_RETURN_IF_ERROR(check_block(
          blocks[i], bytes, fmt::format("layer '{}': '{}'", layer.name, tensors[i].name)));
      if (&blocks[i].state()->entry() != &layers.memory->entry) {
        return Error{ErrorCode::kInvalidArgument,
                     fmt::format("layer '{}': the block of '{}' belongs to another memory",
                                 layer.name, tensors[i].name)};
      }
    }
    return {};
  };
  TESSERA_RETURN_IF_ERROR(check(task.inputs, layer.inputs, "inputs"));
  return check(task.outputs, layer.outputs, "outputs");
}

Status check_operation_task(const OperationTask& task) {
  const DeviceEntry* const entry = &task.output.state()->entry();
  const bool product = std::holds_alternative<operations::MatrixProduct>(task.operation);
  const std::string name = device::operation_name(task.operation);
  if (product != task.weights.has_value()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("operation '{}': a matrix product has weights, the others have none", name)};
  }
  const bool same_memory = &task.input.state()->entry() == entry &&
                           (!product || &task.weights->state()->entry() == entry);
  if (!same_memory) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("operation '{}': its blocks belong to different memories", name)};
  }
  // Else it might lie in another block, of another owner.
  const std::int64_t weight_bytes = product ? std::ssize(task.weights->bytes()) : 1;
  if (task.weight_offset < 0 || task.weight_offset >= weight_bytes) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("operation '{}': a weight offset of {}; its weights have {} bytes",
                             name, task.weight_offset, product ? weight_bytes : 0)};
  }
  return {};
}

Status check_priority(int priority) {
  if (priority >= kPriorityLowest && priority <= kPriorityHighest) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("a priority of {}; allowed {} to {}", priority, kPriorityLowest,
                           kPriorityHighest)};
}
static_assert(kPriorityLowest == pipeline::kPriorityMin);
static_assert(kPriorityHighest == pipeline::kPriorityMax);

}  // namespace

Result<std::uint32_t> PipelineState::skipped(const std::vector<std::string>& names) const {
  std::uint32_t bits = 0;
  for (const std::string& name : names) {
    TESSERA_TRY(const std::size_t stage, index_of(name));
    bits |= 1U << stage;
  }
  return bits;
}

Status PipelineState::check_runs(std::span<const std::vector<Tensor>> runs,
                                 const std::vector<std::string>& skipped_stages) const {
  TESSERA_TRY(const std::uint32_t skipped_bits, skipped(skipped_stages));
  const auto first = std::find_if(stages_.begin(), stages_.end(), [&](const StageEntry& stage) {
    return (skipped_bits >> (&stage - stages_.data()) & 1) == 0;
  });
  if (first == stages_.end() || first->model == nullptr) return {};
  if (runs.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "a task without runs; give the model's inputs at least once"};
  }
  const bool pre = first->kind == StageKind::kPre;
  const ModelState& model = *first->model;
  const std::vector<TensorDescription>& wanted =
      pre ? model.network.inputs() : model.device_inputs();
  for (std::size_t run = 0; run < runs.size(); ++run) {
    const Status status =
        check_inputs(wanted, runs[run], pre ? Accepted::kFloat32Too : Accepted::kModelsFormats);
    if (status.ok()) continue;
    return runs.size() == 1 ? status.error()
                            : status.error().with_context(fmt::format("run {}", run));
  }
  return {};
}

bool PipelineState::called_from_inside() const {
  return JobState::in_callback_of() == jobs_.get() ||
         pipeline::OwnThread::owner() == pipeline_.get();
}

bool PipelineState::wait_for_room(std::chrono::nanoseconds patience) {
  if (!runtime_->here()) return false;
  if (called_from_inside()) patience = std::chrono::nanoseconds(0);
  return jobs_->room().wait(patience);
}

Status PipelineState::check_call(PacketKind kind) const {
  TESSERA_RETURN_IF_ERROR(check_process());
  if (kind == kind_) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      kind_ == PacketKind::kNetwork
          ? "this pipeline runs networks; open one for operations to run single layers and "
            "operations"
          : "this pipeline runs single layers and operations; open one for a model to run "
            "networks"};
}

Status PipelineState::admit(bool when_room) {
  return when_room ? admit_when_room() : admit_or_refuse();
}

Status PipelineState::admit_or_refuse() {
  if (jobs_->room().try_take()) return {};
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} jobs are in flight, which is the most this pipeline holds; wait for "
                           "room or open it with a larger jobs_max",
                           jobs_->room().places())};
}

Status PipelineState::admit_when_room() {
  if (jobs_->room().try_take()) return {};
  if (called_from_inside()) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("{} jobs are in flight, which is the most this pipeline holds, and a "
                             "thread of the pipeline cannot wait for room: it would wait for "
                             "itself; use submit()",
                             jobs_->room().places())};
  }
  jobs_->room().take();
  return {};
}

pipeline::PacketPtr PipelineState::network_packet_of(const StreamState& stream,
                                                     std::vector<std::vector<Tensor>> runs,
                                                     const SubmitOptions& options) {
  pipeline::PacketPtr packet = packets_.take();
  Task& task = network_packet(packet).task;
  task.runs = std::move(runs);
  task.payload = options.payload;
  task.stream = stream.id();
  return packet;
}

Result<JobReference> PipelineState::submit(const std::shared_ptr<StreamState>& stream,
                                           std::vector<std::vector<Tensor>> runs,
                                           SubmitOptions options) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kNetwork));
  TESSERA_RETURN_IF_ERROR(check_runs(runs, options.skipped_stages));
  TESSERA_RETURN_IF_ERROR(admit_or_refuse());
  return with_room([&] {
    pipeline::PacketPtr packet = network_packet_of(*stream, std::move(runs), options);
    return enter(stream, std::move(packet), std::move(options));
  });
}

Result<JobReference> PipelineState::submit_when_room(const std::shared_ptr<StreamState>& stream,
                                                     std::vector<std::vector<Tensor>> runs,
                                                     SubmitOptions options) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kNetwork));
  TESSERA_RETURN_IF_ERROR(check_runs(runs, options.skipped_stages));
  TESSERA_RETURN_IF_ERROR(admit_when_room());
  return with_room([&] {
    pipeline::PacketPtr packet = network_packet_of(*stream, std::move(runs), options);
    return enter(stream, std::move(packet), std::move(options));
  });
}

Result<JobReference> PipelineState::submit_layer(const std::shared_ptr<StreamState>& stream,
                                                 const std::shared_ptr<LayersState>& layers,
                                                 const LayerTask& task, SubmitOptions options,
                                                 bool when_room) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kOperation));
  TESSERA_RETURN_IF_ERROR(check_layer_task(*layers, task));
  TESSERA_RETURN_IF_ERROR(admit(when_room));
  return with_room([&] {
    pipeline::PacketPtr packet = packets_.take();
    OperationPacket& fields = operation_packet(packet);
    fields.layers = layers;
    fields.layer_index = task.layer;
    fields.layer = layers->list[task.layer].name;
    for (const Block& block : task.inputs) {
      fields.inputs.push_back(block.state());
      fields.add_use(block.state(), false);
    }
    for (const Block& block : task.outputs) {
      fields.outputs.push_back(block.state());
      fields.add_use(block.state(), true);
    }
    fields.fetch = task.fetch;
    fields.payload = options.payload;
    return enter(stream, std::move(packet), std::move(options));
  });
}

Result<JobReference> PipelineState::submit_operation(const std::shared_ptr<StreamState>& stream,
                                                     const OperationTask& task,
                                                     SubmitOptions options, bool when_room) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kOperation));
  TESSERA_RETURN_IF_ERROR(check_operation_task(task));
  TESSERA_RETURN_IF_ERROR(admit(when_room));
  return with_room([&] {
    pipeline::PacketPtr packet = packets_.take();
    OperationPacket& fields = operation_packet(packet);
    fields.operation = task.operation;
    fields.layer = device::operation_name(task.operation);
    fields.inputs.push_back(task.input.state());
    fields.outputs.push_back(task.output.state());
    fields.add_use(task.input.state(), false);
    fields.add_use(task.output.state(), true);
    if (task.weights.has_value()) {
      fields.weights = task.weights->state();
      fields.add_use(task.weights->state(), false);
    }
    fields.weight_offset = task.weight_offset;
    fields.fetch = task.fetch;
    fields.payload = options.payload;
    return enter(stream, std::move(packet), std::move(options));
  });
}

Result<PipelineState::Entering> PipelineState::entering(const StreamState& stream,
                                                        const SubmitOptions& options) const {
  Entering how;
  TESSERA_TRY(how.skipped_stages, skipped(options.skipped_stages));
  how.priority = options.priority.value_or(stream.priority());
  TESSERA_RETURN_IF_ERROR(check_priority(how.priority));
  how.in_place = options.in_place;
  return how;
}

// The task was admitted. Up to StreamState::open() it can be refused, or memory can end; from there
// on it has a job, which gets an outcome.
Result<JobReference> PipelineState::enter(const std::shared_ptr<StreamState>& stream,
                                          pipeline::PacketPtr packet, SubmitOptions options) {
  TESSERA_TRY(Entering how, entering(*stream, options));
  const bool watched = options.deadline.has_value() && *options.deadline < kForever;
  if (watched) TESSERA_RETURN_IF_ERROR(deadlines_.prepare());
  auto& task = static_cast<TaskPacket&>(*packet);
  const std::uint64_t id = runtime_->next_task();
  JobReference job = jobs_->take();
  if (task.turn != nullptr) TESSERA_RETURN_IF_ERROR(prepare_turn(*task.turn));
  try {
    stream->open(JobReference(job.get()), id, stream, std::move(options.callback));
  } catch (...) {
    if (task.turn != nullptr) runtime_->block_order().forget(*task.turn);
    throw;
  }
  how.submitted = pipeline::now();
  if (watched) {
    task.header.deadline = how.submitted + options.deadline->count();
    deadlines_.watch(JobReference(job.get()), task.header.deadline);
  }
  bring_in(std::move(packet), *stream, job, how);
  return job;
}

Status PipelineState::submit_opened(const std::shared_ptr<StreamState>& stream,
                                    const JobReference& job, std::vector<Tensor> inputs,
                                    const SubmitOptions& options, pipeline::Nanoseconds submitted) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kNetwork));
  std::vector<std::vector<Tensor>> runs;
  runs.push_back(std::move(inputs));
  TESSERA_RETURN_IF_ERROR(check_runs(runs, options.skipped_stages));
  TESSERA_TRY(Entering how, entering(*stream, options));
  how.submitted = submitted;
  how.in_place = false;
  pipeline::PacketPtr packet = network_packet_of(*stream, std::move(runs), options);
  if (options.deadline.has_value() && *options.deadline < kForever) {
    packet->header.deadline = submitted + options.deadline->count();
  }
  bring_in(std::move(packet), *stream, job, how);
  return {};
}

void PipelineState::bring_in(pipeline::PacketPtr packet, const StreamState& stream,
                             const JobReference& job, const Entering& how) {
  auto& task = static_cast<TaskPacket&>(*packet);
  submitted_.fetch_add(1, std::memory_order_relaxed);
  inside_.fetch_add(1, std::memory_order_relaxed);
  task.header.id = job->id();
  task.header.stream = stream.id();
  task.header.sequence = job->sequence();
  task.header.skipped_stages = how.skipped_stages;
  task.header.priority = how.priority;
  task.header.submitted = how.submitted;
  task.header.ended = &job->ended_early();
  if (kind_ == PacketKind::kNetwork) network_packet(packet).task.sequence = job->sequence();
  task.job = JobReference(job.get());
  runtime_->recorder().record({.kind = metrics::EventKind::kTaskSubmitted,
                               .source = tasks_source_,
                               .stream = stream.id(),
                               .begin_ns = how.submitted - recorder_start_,
                               .end_ns = how.submitted - recorder_start_,
                               .packet = job->id()});
  await_turn(std::move(packet), how.in_place);
}

// A task that was to write a block and could not take its turn would leave it with what is older.
Status PipelineState::prepare_turn(PacketTurn& turn) {
  TESSERA_RETURN_IF_ERROR(runtime_->retained_turns().prepare());
  runtime_->block_order().prepare(turn);
  return {};
}

// Behind those that were submitted before it and use its blocks.
void PipelineState::await_turn(pipeline::PacketPtr packet, bool in_place) {
  const std::shared_ptr<PacketTurn> turn = static_cast<TaskPacket&>(*packet).turn;
  if (turn == nullptr) {
    // The room bounds what is inside.
    const pipeline::Nanoseconds submitted = packet->header.submitted;
    return pipeline_->enter_now(std::move(packet), submitted, in_place);
  }
  {
    const std::lock_guard lock(waiting_mutex_);
    ++waiting_;
  }
  turn->entrance = this;
  turn->packet = std::move(packet);
  if (runtime_->block_order().enter(*turn)) turn->proceed();
}

void PipelineState::let_in(pipeline::PacketPtr packet) {
  pipeline_->enter_now(std::move(packet));
  const std::lock_guard lock(waiting_mutex_);
  if (--waiting_ == 0) none_waits_.notify_all();
}

void PipelineState::wait_until_none_waits() {
  std::unique_lock lock(waiting_mutex_);
  none_waits_.wait(lock, [this] { return waiting_ == 0; });
}

}  // namespace tessera::runtime
