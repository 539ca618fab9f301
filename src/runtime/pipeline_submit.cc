// How tasks enter a pipeline: room, the packet of their kind, their place in the stream.
#include <fmt/format.h>

#include "runtime/network_packet.h"
#include "runtime/operation_packet.h"
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
      if (blocks[i].state()->memory != layers.memory) {
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
  const std::shared_ptr<MemoryState>& memory = task.output.state()->memory;
  const bool product = std::holds_alternative<operations::MatrixProduct>(task.operation);
  const std::string name = device::operation_name(task.operation);
  if (product != task.weights.has_value()) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("operation '{}': a matrix product has weights, the others have none", name)};
  }
  const bool same_memory =
      task.input.state()->memory == memory && (!product || task.weights->state()->memory == memory);
  if (!same_memory) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("operation '{}': its blocks belong to different memories", name)};
  }
  return {};
}

}  // namespace

Result<std::uint32_t> PipelineState::skipped(const std::vector<std::string>& names) const {
  std::uint32_t bits = 0;
  for (const std::string& name : names) {
    TESSERA_TRY(const std::size_t stage, index_of(name));
    bits |= 1U << stage;
  }
  return bits;
}

bool PipelineState::admit() {
  std::size_t count = in_flight_.load(std::memory_order_relaxed);
  do {
    if (count >= jobs_max_) return false;
  } while (!in_flight_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel));
  return true;
}

void PipelineState::dismiss() {
  in_flight_.fetch_sub(1, std::memory_order_acq_rel);
  if (waiting_for_room_.load(std::memory_order_acquire) == 0) return;
  const std::lock_guard lock(room_mutex_);
  room_.notify_all();
}

bool PipelineState::wait_for_room(std::chrono::nanoseconds patience) {
  const auto there_is = [this] { return in_flight_.load(std::memory_order_acquire) < jobs_max_; };
  if (there_is()) return true;
  std::unique_lock lock(room_mutex_);
  waiting_for_room_.fetch_add(1, std::memory_order_acq_rel);
  bool found = true;
  if (patience == std::chrono::nanoseconds::max()) {
    room_.wait(lock, there_is);
  } else {
    found = room_.wait_for(lock, patience, there_is);
  }
  waiting_for_room_.fetch_sub(1, std::memory_order_acq_rel);
  return found;
}

Status PipelineState::check_kind(PacketKind kind) const {
  if (kind == kind_) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      kind_ == PacketKind::kNetwork
          ? "this pipeline runs networks; open one for operations to run single layers and "
            "operations"
          : "this pipeline runs single layers and operations; open one for a model to run "
            "networks"};
}

Status PipelineState::admit_or_refuse() {
  if (admit()) return {};
  return Error{ErrorCode::kUnavailable,
               fmt::format("{} jobs are in flight, which is the most this pipeline holds; wait for "
                           "room or open it with a larger jobs_max",
                           jobs_max_)};
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
  TESSERA_RETURN_IF_ERROR(check_kind(PacketKind::kNetwork));
  TESSERA_RETURN_IF_ERROR(admit_or_refuse());
  pipeline::PacketPtr packet = network_packet_of(*stream, std::move(runs), options);
  return enter(stream, std::move(packet), std::move(options));
}

Result<JobReference> PipelineState::submit_when_room(const std::shared_ptr<StreamState>& stream,
                                                     std::vector<std::vector<Tensor>> runs,
                                                     SubmitOptions options) {
  TESSERA_RETURN_IF_ERROR(check_kind(PacketKind::kNetwork));
  while (!admit()) wait_for_room(std::chrono::nanoseconds::max());
  pipeline::PacketPtr packet = network_packet_of(*stream, std::move(runs), options);
  return enter(stream, std::move(packet), std::move(options));
}

Result<JobReference> PipelineState::submit_layer(const std::shared_ptr<StreamState>& stream,
                                                 const std::shared_ptr<LayersState>& layers,
                                                 const LayerTask& task, SubmitOptions options) {
  TESSERA_RETURN_IF_ERROR(check_kind(PacketKind::kOperation));
  TESSERA_RETURN_IF_ERROR(check_layer_task(*layers, task));
  TESSERA_RETURN_IF_ERROR(admit_or_refuse());
  pipeline::PacketPtr packet = packets_.take();
  OperationPacket& fields = operation_packet(packet);
  fields.layers = layers;
  fields.layer_index = task.layer;
  fields.layer = layers->list[task.layer].name;
  for (const Block& block : task.inputs) fields.inputs.push_back(block.state());
  for (const Block& block : task.outputs) fields.outputs.push_back(block.state());
  fields.fetch = task.fetch;
  fields.payload = options.payload;
  return enter(stream, std::move(packet), std::move(options));
}

Result<JobReference> PipelineState::submit_operation(const std::shared_ptr<StreamState>& stream,
                                                     const OperationTask& task,
                                                     SubmitOptions options) {
  TESSERA_RETURN_IF_ERROR(check_kind(PacketKind::kOperation));
  TESSERA_RETURN_IF_ERROR(check_operation_task(task));
  TESSERA_RETURN_IF_ERROR(admit_or_refuse());
  pipeline::PacketPtr packet = packets_.take();
  OperationPacket& fields = operation_packet(packet);
  fields.operation = task.operation;
  fields.layer = device::operation_name(task.operation);
  fields.inputs.push_back(task.input.state());
  fields.outputs.push_back(task.output.state());
  if (task.weights.has_value()) fields.weights = task.weights->state();
  fields.weight_offset = task.weight_offset;
  fields.fetch = task.fetch;
  fields.payload = options.payload;
  return enter(stream, std::move(packet), std::move(options));
}

// The task was admitted.
Result<JobReference> PipelineState::enter(const std::shared_ptr<StreamState>& stream,
                                          pipeline::PacketPtr packet, SubmitOptions options) {
  const auto skipped_stages = skipped(options.skipped_stages);
  if (!skipped_stages.ok()) {
    packet.reset();
    dismiss();
    return skipped_stages.error();
  }
  submitted_.fetch_add(1, std::memory_order_relaxed);
  auto& task = static_cast<TaskPacket&>(*packet);
  const std::uint64_t id = runtime_->next_task();
  JobReference job = jobs_->take();
  stream->open(JobReference(job.get()), id, stream, std::move(options.callback));
  task.header.id = id;
  task.header.stream = stream->id();
  task.header.sequence = job->sequence();
  task.header.skipped_stages = *skipped_stages;
  task.header.submitted = pipeline::now();
  task.header.cancelled = &job->cancelled();
  if (kind_ == PacketKind::kNetwork) network_packet(packet).task.sequence = job->sequence();
  task.job = JobReference(job.get());
  if (options.deadline.has_value()) {
    task.header.deadline = task.header.submitted + options.deadline->count();
    deadlines_.watch(JobReference(job.get()), task.header.deadline);
  }
  runtime_->recorder().record({.kind = metrics::EventKind::kTaskSubmitted,
                               .source = tasks_source_,
                               .stream = stream->id(),
                               .begin_ns = task.header.submitted - recorder_start_,
                               .end_ns = task.header.submitted - recorder_start_,
                               .packet = id});
  pipeline_->enter(std::move(packet));
  return job;
}

}  // namespace tessera::runtime
