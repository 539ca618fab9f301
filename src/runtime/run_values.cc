#include "runtime/run_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/device_form.h"

namespace tessera::runtime {
namespace {

// Receives a copy within the host's memory.
void note_copy(const RunValue& value, std::int64_t bytes) {
  if (value.block != nullptr) value.block->entry().copied(bytes);
}

Status wrong_size(std::size_t index, std::size_t found, std::size_t wanted) {
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("output {}: found {} bytes, where it is to go there are {}; a stage of "
                           "the application made it",
                           index, found, wanted)};
}

Status put_into_block(const Tensor& tensor, BlockState& block, std::size_t index) {
  if (tensor.bytes.size() != block.block.host.size()) {
    return wrong_size(index, tensor.bytes.size(), block.block.host.size());
  }
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), block.block.host.begin());
  block.entry().copied(std::ssize(tensor.bytes));
  return block.wrote();
}

Status put_into_view(const Tensor& tensor, const TensorView& view, std::size_t index) {
  if (tensor.bytes.size() != view.bytes.size()) {
    return wrong_size(index, tensor.bytes.size(), view.bytes.size());
  }
  std::copy(tensor.bytes.begin(), tensor.bytes.end(), view.bytes.begin());
  return {};
}

}  // namespace

bool RunValue::fits(const TensorDescription& tensor) const {
  if (block != nullptr) return block->fits(tensor);
  return view.has_value() && view->format == tensor.format && view->dims == tensor.dims;
}

bool RunValue::stands_for(const TensorDescription& dense) const {
  if (block == nullptr || block->dense_dims.empty()) return fits(dense);
  return block->format == dense.format && block->dense_dims == dense.dims;
}

std::string RunValue::description() const {
  if (block != nullptr) return "a block of " + block->description();
  return view.has_value() ? description_text(view->format, view->dims) : std::string();
}

Status RunValue::valid(const std::string& name) const {
  if (block == nullptr) return {};
  const Status status = block->valid();
  if (status.ok()) return {};
  const char* const what = block->rows.order == nullptr ? "its block holds nothing" : "a state";
  return status.error().with_context(fmt::format("input '{}': {}", name, what));
}

Status gather(Tensor& tensor, RunValue& value) {
  if (!value.present()) return {};
  if (value.block != nullptr) {
    TESSERA_RETURN_IF_ERROR(value.block->valid());
    tensor.bytes.resize(static_cast<std::size_t>(value.block->bytes().value));
    TESSERA_RETURN_IF_ERROR(value.block->read(tensor.bytes));
    if (value.block->entry().device().properties().shared_memory) {
      note_copy(value, std::ssize(tensor.bytes));
    }
  } else {
    tensor.bytes.assign(value.view->bytes.begin(), value.view->bytes.end());
  }
  value.clear();
  return {};
}

Status gather_dense(const TensorDescription& dense, Tensor& tensor, RunValue& value) {
  graph::EdgeConversion layout;
  if (value.block != nullptr) {
    layout =
        graph::layout_conversion(value.block->format, value.block->dims, value.block->dense_dims);
  }
  TESSERA_RETURN_IF_ERROR(gather(tensor, value));
  tensor.format = dense.format;
  tensor.dims = dense.dims;
  if (!layout.changes()) return {};
  const std::vector<std::byte> blocks = std::move(tensor.bytes);
  tensor.bytes.resize(
      static_cast<std::size_t>(element_count(dense.dims) * format_bytes(dense.format)));
  device::from_device(layout, blocks, tensor.bytes);
  return {};
}

Status gather_all(std::vector<Tensor>& tensors, RunValues& values) {
  for (std::size_t i = 0; i < std::min(tensors.size(), values.size()); ++i) {
    TESSERA_RETURN_IF_ERROR(gather(tensors[i], values[i]));
  }
  values.clear();
  return {};
}

Status deliver(std::vector<Tensor>& tensors, RunValues& values,
               const std::vector<NetworkOutput>& outputs) {
  if (outputs.empty()) return gather_all(tensors, values);
  if (tensors.size() != outputs.size()) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("{} outputs at the end of the pipeline, the task says where {} go",
                             tensors.size(), outputs.size())};
  }
  values.resize(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const NetworkOutput& wanted = outputs[i];
    const bool there = wanted.keep || (wanted.block && values[i].block == wanted.block->state()) ||
                       (wanted.view && values[i].view &&
                        wanted.view->bytes.data() == values[i].view->bytes.data());
    if (!there) TESSERA_RETURN_IF_ERROR(gather(tensors[i], values[i]));
    if (wanted.block && !there) {
      TESSERA_RETURN_IF_ERROR(put_into_block(tensors[i], *wanted.block->state(), i));
      tensors[i].bytes.clear();
      values[i].block = wanted.block->state();
    } else if (wanted.view && !there) {
      TESSERA_RETURN_IF_ERROR(put_into_view(tensors[i], *wanted.view, i));
      tensors[i].bytes.clear();
    }
    if (wanted.fetch && values[i].block != nullptr) {
      TESSERA_RETURN_IF_ERROR(values[i].block->to_host());
    }
  }
  return {};
}

}  // namespace tessera::runtime
