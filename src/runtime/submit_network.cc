// Tasks of a network whose inputs and outputs are blocks or memory of the application's, and the
// states that the tasks of a stream hand on.
#include <fmt/format.h>

#include <algorithm>

#include "arch/host_time.h"
#include "device/device_form.h"
#include "runtime/network_packet.h"
#include "runtime/pipeline_state.h"
#include "runtime/tensor_bytes.h"

namespace tessera::runtime {
namespace {

Error wrong(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

bool same_form(const TensorDescription& a, const TensorDescription& b) {
  return a.format == b.format && a.dims == b.dims && a.dense_dims == b.dense_dims;
}

Status check_view(const TensorView& view, const std::string& what) {
  std::int64_t bytes = format_bytes(view.format);
  for (const std::int64_t extent : view.dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) bytes = -1;
    if (bytes < 0) break;
  }
  if (std::ssize(view.bytes) == bytes) return {};
  return wrong(fmt::format("{}: {} bytes for {}", what, view.bytes.size(),
                           description_text(view.format, view.dims)));
}

// Rows of a state have the turn of the state, whichever they are; where they are not written, they say so themselves.
void add_block(TaskPacket& packet, const std::shared_ptr<BlockState>& block, bool writes) {
  const std::shared_ptr<RowOrder>& order = block->rows.order;
  if (order == nullptr || writes) packet.add_use(block, writes);
  if (order != nullptr) packet.add_use(order, writes);
}

// In the network's form or in that of its devices.
Status check_output(const NetworkOutput& output, const TensorDescription& wanted,
                    const TensorDescription& on_device) {
  const int places = (output.block ? 1 : 0) + (output.keep ? 1 : 0) + (output.view ? 1 : 0);
  if (places > 1) {
    return wrong(
        fmt::format("output '{}': a block, keep and a view exclude each other", wanted.name));
  }
  RunValue value;
  if (output.block) value.block = output.block->state();
  if (output.view) value.view = output.view;
  if (output.view) {
    TESSERA_RETURN_IF_ERROR(check_view(*output.view, fmt::format("output '{}'", wanted.name)));
  }
  if (!value.present() || value.fits(wanted) || value.fits(on_device)) return {};
  return wrong(fmt::format("output '{}': given {}, the model makes {}", wanted.name,
                           value.description(), description_text(wanted.format, wanted.dims)));
}

}  // namespace

Status PipelineState::check_network_task(const NetworkTask& task) const {
  const auto check_block = [&](const Block& block) -> Status {
    if (&block.state()->memory->runtime() == runtime_.get()) return {};
    return wrong("a block of another runtime's memory; move it as a tensor");
  };
  std::vector<const BlockState*> read;
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    if (const auto* const view = std::get_if<TensorView>(&task.inputs[i])) {
      TESSERA_RETURN_IF_ERROR(check_view(*view, fmt::format("input {}", i)));
    }
    const auto* const block = std::get_if<Block>(&task.inputs[i]);
    if (block == nullptr) continue;
    TESSERA_RETURN_IF_ERROR(check_block(*block));
    read.push_back(block->state().get());
  }
  if (task.outputs.empty()) return {};
  if (last_model_ == nullptr) {
    return wrong("a task that says where outputs go, in a pipeline without an execute stage");
  }
  const std::vector<TensorDescription>& outputs = last_model_->network.outputs();
  if (task.outputs.size() != outputs.size()) {
    return wrong(fmt::format("places for {} outputs, the model has {}", task.outputs.size(),
                             outputs.size()));
  }
  std::vector<const BlockState*> written;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NetworkOutput& output = task.outputs[i];
    TESSERA_RETURN_IF_ERROR(check_output(output, outputs[i], last_model_->device_outputs()[i]));
    if (!output.block) continue;
    TESSERA_RETURN_IF_ERROR(check_block(*output.block));
    const BlockState* const state = output.block->state().get();
    const bool twice = std::find(written.begin(), written.end(), state) != written.end();
    if (twice || std::find(read.begin(), read.end(), state) != read.end()) {
      return wrong(fmt::format("output '{}': its block is also {} of the task; use another one",
                               outputs[i].name, twice ? "another output" : "an input"));
    }
    written.push_back(state);
  }
  return {};
}

// What a run counts for rows of states, which stay where they are.
std::int64_t PipelineState::cycles_of_rows(const NetworkTask& task) const {
  const BlockState* some = nullptr;
  std::int64_t in = 0, in_rows = 0, out = 0, out_rows = 0;
  const auto add_rows = [&some](const Block& block, std::int64_t& bytes) {
    if (block.state()->rows.order == nullptr) return;
    some = block.state().get();
    bytes += some->bytes().value;
  };
  for (const auto& input : task.inputs) {
    if (const auto* const block = std::get_if<Block>(&input)) add_rows(*block, in_rows);
  }
  for (const NetworkOutput& output : task.outputs) {
    if (output.block) add_rows(*output.block, out_rows);
  }
  if (some == nullptr) return 0;
  for (const TensorDescription& input : first_model_->device_inputs()) {
    in += tensor_bytes(input).value;
  }
  for (const TensorDescription& output : last_model_->device_outputs()) {
    out += tensor_bytes(output).value;
  }
  const ChipConfig& chip = some->entry().chip();
  return transfer_cycles(chip, in) - transfer_cycles(chip, in - in_rows) +
         transfer_cycles(chip, out) - transfer_cycles(chip, out - out_rows);
}

pipeline::PacketPtr PipelineState::packet_of(const StreamState& stream, NetworkTask task,
                                             const SubmitOptions& options) {
  std::vector<std::vector<Tensor>> runs(1);
  RunValues values(task.inputs.size());
  for (std::size_t i = 0; i < task.inputs.size(); ++i) {
    Tensor& header = runs[0].emplace_back();
    if (auto* const tensor = std::get_if<Tensor>(&task.inputs[i])) {
      header = std::move(*tensor);
      continue;
    }
    if (auto* const view = std::get_if<TensorView>(&task.inputs[i])) values[i].view = *view;
    if (auto* const block = std::get_if<Block>(&task.inputs[i])) values[i].block = block->state();
    header.format = values[i].format();
    header.dims = values[i].dims();
  }
  pipeline::PacketPtr packet = network_packet_of(stream, std::move(runs), options);
  NetworkPacket& fields = network_packet(packet);
  for (const RunValue& value : values) {
    if (value.block != nullptr) add_block(fields, value.block, false);
  }
  for (const NetworkOutput& output : task.outputs) {
    if (output.block) add_block(fields, output.block->state(), true);
  }
  fields.transfer_cycles_saved = cycles_of_rows(task);
  fields.values.push_back(std::move(values));
  fields.outputs = std::move(task.outputs);
  return packet;
}

Result<JobReference> PipelineState::submit_network(const std::shared_ptr<StreamState>& stream,
                                                   NetworkTask task, SubmitOptions options,
                                                   bool when_room) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kNetwork));
  TESSERA_RETURN_IF_ERROR(when_room ? admit_when_room() : admit_or_refuse());
  // Whose task is next has the states next: up to its turn on the blocks.
  const std::lock_guard states(stream->states_mutex());
  return with_room([&]() -> Result<JobReference> {
    if (last_model_ != nullptr) {
      TESSERA_RETURN_IF_ERROR(stream->states().add_to(task, first_model_->network.inputs(),
                                                      last_model_->network.outputs()));
    }
    TESSERA_RETURN_IF_ERROR(check_network_task(task));
    pipeline::PacketPtr packet = packet_of(*stream, std::move(task), options);
    TESSERA_TRY(JobReference job, enter(stream, std::move(packet), std::move(options)));
    stream->states().turn();
    return job;
  });
}

// ---------------------------------------------------------------------------------- states

namespace {

// The format and shape that both sides have: in the devices' form if they can.
Result<TensorDescription> state_form(const ModelState& first, const ModelState& last,
                                     const StateBinding& binding) {
  const auto inputs = first.network.inputs().size(), outputs = last.network.outputs().size();
  if (binding.input >= inputs || binding.output >= outputs) {
    return wrong(
        fmt::format("a state from output {} to input {}; the pipeline's models have {} "
                    "outputs and {} inputs",
                    binding.output, binding.input, outputs, inputs));
  }
  for (const auto& [taken, made] :
       {std::pair(&first.device_inputs()[binding.input], &last.device_outputs()[binding.output]),
        std::pair(&first.network.inputs()[binding.input],
                  &last.network.outputs()[binding.output])}) {
    if (same_form(*taken, *made)) return *taken;
  }
  const TensorDescription& input = first.network.inputs()[binding.input];
  const TensorDescription& output = last.network.outputs()[binding.output];
  return wrong(fmt::format("a state from output '{}', {}, to input '{}', {}; both must be the same",
                           output.name, description_text(output.format, output.dims), input.name,
                           description_text(input.format, input.dims)));
}

// With its first contents, which are dense.
Result<Block> state_block(Memory memory, const TensorDescription& form,
                          const std::optional<Tensor>& initial) {
  const Shape& dims = form.dense_dims.empty() ? form.dims : form.dense_dims;
  if (initial && (initial->format != form.format || initial->dims != dims ||
                  std::ssize(initial->bytes) != element_count(dims) * format_bytes(form.format))) {
    return wrong(fmt::format("state '{}': initially {}, it is {}", form.name,
                             description_text(initial->format, initial->dims),
                             description_text(form.format, dims)));
  }
  TESSERA_TRY(Block block, memory.allocate(form));
  if (initial) {
    device::to_device(graph::layout_conversion(form.format, form.dims, form.dense_dims),
                      initial->bytes, block.bytes());
  } else {
    std::fill(block.bytes().begin(), block.bytes().end(), std::byte{0});
  }
  TESSERA_RETURN_IF_ERROR(block.wrote());
  return block;
}

}  // namespace

Status PipelineState::bind_states(StreamState& stream, const Memory& memory,
                                  const std::vector<StateBinding>& bindings) {
  TESSERA_RETURN_IF_ERROR(check_call(PacketKind::kNetwork));
  if (first_model_ == nullptr) return wrong("states of a pipeline without an execute stage");
  std::vector<StreamStates::Pair> pairs;
  for (const StateBinding& binding : bindings) {
    TESSERA_TRY(const TensorDescription form, state_form(*first_model_, *last_model_, binding));
    for (const StreamStates::Pair& other : pairs) {
      if (other.input != binding.input && other.output != binding.output) continue;
      return wrong(
          fmt::format("two states from output {} or to input {}", binding.output, binding.input));
    }
    TESSERA_TRY(Block first, state_block(memory, form, binding.initial));
    TESSERA_TRY(Block second, Memory(memory).allocate(form));
    const auto behind = std::find_if(pairs.begin(), pairs.end(),
                                     [&](const auto& pair) { return pair.input > binding.input; });
    pairs.insert(behind, {binding.input, binding.output, {std::move(first), std::move(second)}});
  }
  const std::lock_guard lock(stream.states_mutex());
  stream.states() = StreamStates(std::move(pairs));
  return {};
}

}  // namespace tessera::runtime
