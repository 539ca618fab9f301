// Blocks of tensors, tasks of networks on them, and states in the C interface.
#include "c/options.h"

using namespace tessera::c;  // NOLINT: the C functions stand in no namespace

namespace tessera::c {
namespace {

constexpr std::size_t kTensorsMax = 1U << 16U;

// In place: only inputs are read there, and outputs are the caller's to be written.
Result<TensorView> view_in_place(const tessera_tensor& tensor, std::shared_ptr<void> owner,
                                 const std::string& what) {
  TESSERA_TRY(TensorDescription header, header_of(tensor, what));
  TensorView view;
  view.format = header.format;
  view.dims = std::move(header.dims);
  view.bytes = {static_cast<std::byte*>(const_cast<void*>(tensor.data)), tensor.bytes};
  view.owner = std::move(owner);
  return view;
}

Result<NetworkTask> network_task_of(const tessera_network_task* task) {
  TESSERA_TRY(const tessera_network_task given, sized(task));
  TESSERA_TRY(const auto inputs,
              sized_list(given.inputs, given.input_count, kTensorsMax, "inputs"));
  TESSERA_TRY(const auto outputs,
              sized_list(given.outputs, given.output_count, kTensorsMax, "outputs"));
  // First of all, so that each is released in any case.
  std::vector<std::shared_ptr<void>> owners;
  for (const tessera_task_input& input : inputs) {
    owners.push_back(owned(input.owner, input.release_owner));
  }
  for (const tessera_task_output& output : outputs) {
    owners.push_back(owned(output.owner, output.release_owner));
  }
  NetworkTask wanted;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string what = "input " + std::to_string(i);
    if (inputs[i].block != nullptr) {
      wanted.inputs.emplace_back(inputs[i].block->block);
    } else if (inputs[i].in_place) {
      TESSERA_TRY(TensorView view, view_in_place(inputs[i].tensor, std::move(owners[i]), what));
      wanted.inputs.emplace_back(std::move(view));
    } else {
      TESSERA_TRY(Tensor tensor, tensor_of(inputs[i].tensor, what));
      wanted.inputs.emplace_back(std::move(tensor));
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    NetworkOutput& output = wanted.outputs.emplace_back();
    if (outputs[i].block != nullptr) output.block = outputs[i].block->block;
    output.keep = outputs[i].keep;
    output.fetch = outputs[i].fetch;
    if (outputs[i].into.data == nullptr) continue;
    TESSERA_TRY(output.view, view_in_place(outputs[i].into, std::move(owners[inputs.size() + i]),
                                           "output " + std::to_string(i)));
  }
  return wanted;
}

Result<std::vector<StateBinding>> bindings_of(const tessera_state_binding* bindings,
                                              std::size_t count) {
  TESSERA_TRY(const auto given, sized_list(bindings, count, kTensorsMax, "bindings"));
  std::vector<StateBinding> list;
  for (const tessera_state_binding& binding : given) {
    StateBinding& state = list.emplace_back();
    state.output = binding.output;
    state.input = binding.input;
    if (binding.initial.data == nullptr) continue;
    TESSERA_TRY(state.initial, tensor_of(binding.initial, "the state's initial value"));
  }
  return list;
}

}  // namespace
}  // namespace tessera::c

extern "C" {

tessera_error* tessera_block_allocate_tensor(tessera_memory* memory, tessera_format format,
                                             size_t rank, const int64_t* dims,
                                             tessera_block** block) {
  if (block == nullptr) return is_null("block");
  *block = nullptr;
  if (memory == nullptr) return is_null("memory");
  return guarded([&]() -> tessera_error* {
    const std::size_t element =
        tessera_format_bytes(static_cast<tessera_format>(number_in(format)));
    if (element == 0) {
      return make_error(tessera::Error{tessera::ErrorCode::kInvalidArgument,
                                       "the block has the format " +
                                           std::to_string(number_in(format)) +
                                           ", which there is not"});
    }
    auto shape = shape_of(rank, dims, "the block");
    if (!shape.ok()) return make_error(shape.error());
    return hand_over(memory->memory.allocate(tessera::TensorDescription{
                         "", static_cast<tessera::Format>(number_in(format)), std::move(*shape)}),
                     block);
  });
}

tessera_error* tessera_block_upload(tessera_memory* memory, const tessera_tensor* tensor,
                                    tessera_block** block) {
  if (block == nullptr) return is_null("block");
  *block = nullptr;
  if (memory == nullptr) return is_null("memory");
  if (tensor == nullptr) return is_null("tensor");
  return guarded([&]() -> tessera_error* {
    auto copy = tensor_of(*tensor, "the tensor");
    if (!copy.ok()) return make_error(copy.error());
    return hand_over(memory->memory.upload(std::move(*copy)), block);
  });
}

tessera_error* tessera_block_wrap(tessera_memory* memory, const tessera_tensor* tensor, void* owner,
                                  tessera_release_function release_owner, tessera_block** block) {
  return guarded([&]() -> tessera_error* {
    std::shared_ptr<void> kept = owned(owner, release_owner);
    if (block == nullptr) return is_null("block");
    *block = nullptr;
    if (memory == nullptr) return is_null("memory");
    if (tensor == nullptr) return is_null("tensor");
    auto view = view_in_place(*tensor, std::move(kept), "the tensor");
    if (!view.ok()) return make_error(view.error());
    return hand_over(
        memory->memory.wrap(view->bytes, {"", view->format, view->dims}, std::move(view->owner)),
        block);
  });
}

tessera_tensor_description tessera_block_description(const tessera_block* block) {
  if (block == nullptr) return {};
  const tessera::Shape& dims = block->block.dims();
  return {"", static_cast<tessera_format>(block->block.format()), dims.size(), dims.data()};
}

tessera_error* tessera_submit_network(tessera_stream* stream, const tessera_network_task* task,
                                      const tessera_submit_options* options, tessera_job** job) {
  return guarded([&]() -> tessera_error* {
    // First of all, so that what they hold is released in any case.
    auto submission = submission_of(options);
    if (job != nullptr) *job = nullptr;
    if (task == nullptr) return is_null("task");
    auto wanted = network_task_of(task);
    if (!submission.ok()) return make_error(submission.error());
    if (!wanted.ok()) return make_error(wanted.error());
    if (stream == nullptr) return is_null("stream");
    if (tessera_error* const unheard = check_heard(submission->options, job)) return unheard;
    auto submitted =
        submission->fail_if_full
            ? stream->stream.submit_network(std::move(*wanted), std::move(submission->options))
            : stream->stream.submit_network_when_room(std::move(*wanted),
                                                      std::move(submission->options));
    if (!submitted.ok()) return make_error(submitted.error());
    if (job != nullptr) *job = new tessera_job{std::move(*submitted)};
    return nullptr;
  });
}

tessera_error* tessera_result_block(const tessera_result* result, size_t index,
                                    tessera_block** block) {
  if (block == nullptr) return is_null("block");
  *block = nullptr;
  if (result == nullptr) return is_null("result");
  return guarded([&]() -> tessera_error* {
    const auto& blocks = result->result.blocks;
    if (index < blocks.size() && blocks[index]) *block = new tessera_block{*blocks[index]};
    return nullptr;
  });
}

tessera_error* tessera_stream_bind_states(tessera_stream* stream, const tessera_memory* memory,
                                          const tessera_state_binding* bindings,
                                          size_t binding_count) {
  if (stream == nullptr) return is_null("stream");
  if (memory == nullptr) return is_null("memory");
  return guarded([&]() -> tessera_error* {
    const auto list = bindings_of(bindings, binding_count);
    if (!list.ok()) return make_error(list.error());
    return make_error(stream->stream.bind_states(memory->memory, *list));
  });
}

}  // extern "C"
