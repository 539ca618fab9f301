#include "runtime/memory_state.h"

#include <fmt/format.h>

#include <array>

#include "base/guarded.h"
#include "base/process_mark.h"
#include "graph/edge_blocks.h"
#include "runtime/waiting_claim.h"

namespace tessera::runtime {

namespace {

Result<Bytes> checked_bytes(const TensorDescription& tensor) {
  if (!tensor.dense_dims.empty()) {
    const std::string wrong = graph::broken_blocks(tensor.dims, tensor.dense_dims);
    if (!wrong.empty()) return Error{ErrorCode::kInvalidArgument, "a block: " + wrong};
  }
  std::int64_t bytes = format_bytes(tensor.format);
  for (const std::int64_t extent : tensor.dims) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return Error{ErrorCode::kInvalidArgument,
                   fmt::format("a block of {}: no such tensor fits into memory",
                               description_text(tensor.format, tensor.dims))};
    }
  }
  return Bytes{bytes};
}

// The state of a block that the mirror has made; where there is no memory for it the block goes.
Result<std::shared_ptr<BlockState>> state_of(std::shared_ptr<MemoryState> memory,
                                             const device::MirroredBlock& block,
                                             const TensorDescription& tensor) {
  device::Mirror& mirror = memory->mirror();
  bool made = false;  // it releases the block itself
  auto state = guarded("", [&]() -> Result<std::shared_ptr<BlockState>> {
    auto owned = std::make_unique<BlockState>(std::move(memory), block);
    made = true;
    std::shared_ptr<BlockState> state(owned.release(), DeleteHere{});
    state->format = tensor.format;
    state->dims = tensor.dims;
    state->dense_dims = tensor.dense_dims;
    return state;
  });
  if (!made) (void)mirror.release(block);
  return state;
}

}  // namespace

std::string description_text(Format format, const Shape& dims) {
  return fmt::format("{} [{}]", format_name(format), fmt::join(dims, "x"));
}

std::string description_text(const TensorDescription& tensor) {
  if (tensor.dense_dims.empty()) return description_text(tensor.format, tensor.dims);
  return fmt::format("{} in blocks of {}x{}", description_text(tensor.format, tensor.dense_dims),
                     tensor.dims[2], tensor.dims[3]);
}

Result<std::shared_ptr<BlockState>> BlockState::allocate(std::shared_ptr<MemoryState> memory,
                                                         Bytes bytes) {
  TESSERA_TRY(auto block,
              allocate(std::move(memory), TensorDescription{"", Format::kU8, {bytes.value}}));
  block->plain = true;
  return block;
}

Result<std::shared_ptr<BlockState>> BlockState::allocate(std::shared_ptr<MemoryState> memory,
                                                         const TensorDescription& tensor) {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  TESSERA_TRY(const Bytes bytes, checked_bytes(tensor));
  if (bytes.value < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a block of {} bytes; allowed 1 and more", bytes.value)};
  }
  const std::array parts = {bytes};
  TESSERA_TRY(const device::MirroredBlock block, memory->mirror().allocate(parts));
  return state_of(std::move(memory), block, tensor);
}

Result<std::shared_ptr<BlockState>> BlockState::wrap(std::shared_ptr<MemoryState> memory,
                                                     std::span<std::byte> bytes,
                                                     const TensorDescription& tensor,
                                                     std::shared_ptr<void> owner) {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  TESSERA_TRY(const Bytes needed, checked_bytes(tensor));
  if (bytes.data() == nullptr || bytes.empty() || std::ssize(bytes) != needed.value) {
    return Error{
        ErrorCode::kInvalidArgument,
        fmt::format("{} bytes to wrap as {}, which has {}; allowed 1 and more", bytes.size(),
                    description_text(tensor.format, tensor.dims), needed.value)};
  }
  TESSERA_TRY(const device::MirroredBlock block, memory->mirror().map(bytes, std::move(owner)));
  return state_of(std::move(memory), block, tensor);
}

Result<std::shared_ptr<BlockState>> BlockState::take_over(std::shared_ptr<MemoryState> memory,
                                                          const device::MemoryBlock& block,
                                                          const TensorDescription& tensor) {
  TESSERA_TRY(const device::MirroredBlock mirrored, memory->mirror().take_over(block));
  return state_of(std::move(memory), mirrored, tensor);
}

Result<std::shared_ptr<BlockState>> BlockState::rows_of(std::shared_ptr<BlockState> whole,
                                                        Bytes first,
                                                        const TensorDescription& tensor,
                                                        RowsOfState rows) {
  TESSERA_TRY(const Bytes bytes, checked_bytes(tensor));
  TESSERA_CHECK(first.value >= 0 && first.value + bytes.value <= whole->bytes().value,
                "{} bytes at {} of a block of {}", bytes.value, first.value, whole->bytes().value);
  const auto host = whole->block.host.subspan(static_cast<std::size_t>(first.value),
                                              static_cast<std::size_t>(bytes.value));
  auto part = make_shared_here<BlockState>(
      whole->memory, device::MirroredBlock{host, {{whole->address() + first, bytes}}});
  part->format = tensor.format;
  part->dims = tensor.dims;
  part->whole = std::move(whole);
  part->rows = std::move(rows);
  return part;
}

BlockState::~BlockState() {
  if (whole != nullptr) return;
  (void)guarded("", [this] { return memory->mirror().release(block); });
  if (stays) entry().run_memory().stays_no_more();
}

bool BlockState::fits(const TensorDescription& tensor) const {
  if (!plain) {
    return format == tensor.format && dims == tensor.dims && dense_dims == tensor.dense_dims;
  }
  return tensor.dense_dims.empty() &&
         bytes().value == element_count(tensor.dims) * format_bytes(tensor.format);
}

std::string BlockState::description() const {
  return plain ? fmt::format("{} bytes", bytes().value)
               : description_text({"", format, dims, dense_dims});
}

Status BlockState::to_device(const device::TransferTag& tag) {
  return memory->mirror().to_device(block.host, tag);
}
Status BlockState::to_host(const device::TransferTag& tag) {
  return memory->mirror().to_host(block.host, tag);
}
Status BlockState::ran() {
  TESSERA_RETURN_IF_ERROR(memory->mirror().ran(block.host));
  invalidate({});
  return {};
}
Status BlockState::wrote() {
  TESSERA_RETURN_IF_ERROR(memory->mirror().wrote(block.host));
  invalidate({});
  return {};
}
Status BlockState::read(std::span<std::byte> to, const device::TransferTag& tag) {
  return memory->mirror().read(block.host, to, tag);
}

Status BlockState::host_wrote() {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  if (memory->runtime().block_order().is_used(*this)) {
    return Error{ErrorCode::kUnavailable,
                 "a task that was submitted uses the block; wait for it before the host writes"};
  }
  return wrote();
}

Status BlockState::fetch() {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  WaitingClaim claim;
  BlockOrder& order = memory->runtime().block_order();
  claim.uses.push_back({shared_from_this(), false});
  const bool inside = WaitingClaim::must_not_wait();
  if (inside && !order.try_enter(claim)) {
    return Error{ErrorCode::kUnavailable,
                 "a task that was submitted uses the block, and a stage or a callback cannot wait "
                 "for it; fetch the block when the task is done"};
  }
  if (!inside && !order.enter(claim)) claim.wait();
  Status status = guarded("fetching a block", [this]() -> Status {
    TESSERA_RETURN_IF_ERROR(valid());
    return to_host();
  });
  order.leave(claim);
  return status;
}

Status BlockState::valid() const {
  if (rows.order != nullptr) return rows.order->valid();
  const std::lock_guard lock(mutex_);
  return valid_;
}
void BlockState::invalidate(Status why) {
  if (rows.order != nullptr) {
    if (!why.ok() && rows.written >= 0) rows.order->row_failed(rows.written, std::move(why));
    return;
  }
  const std::lock_guard lock(mutex_);
  valid_ = std::move(why);
}

LayersState::~LayersState() {
  if (ids.empty()) return;
  (void)guarded("", [this] { return memory->entry.device().unload(ids.front()); });
}

Result<std::shared_ptr<LayersState>> LayersState::load(std::shared_ptr<MemoryState> memory,
                                                       const Network& network) {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  auto state = make_shared_here<LayersState>();
  state->ids.reserve(1);  // with one of them it gives all back
  TESSERA_TRY(const std::vector<device::LoadedLayer> loaded,
              memory->entry.device().load_layers(network.share()));
  state->memory = std::move(memory);
  for (const device::LoadedLayer& layer : loaded) state->ids.push_back(layer.id);
  TESSERA_TRY(const auto dense, network::dense_graph_of(network.state()));
  const graph::Graph& graph = *dense;
  const auto describe = [&](const std::vector<graph::TensorId>& ids) {
    std::vector<TensorDescription> tensors;
    for (const graph::TensorId id : ids) {
      const graph::TensorInfo& tensor = graph.tensor(id);
      tensors.push_back({tensor.name, tensor.format, tensor.dims});
    }
    return tensors;
  };
  for (const device::LoadedLayer& layer : loaded) {
    state->list.push_back({.name = layer.name,
                           .inputs = describe(layer.inputs),
                           .outputs = describe(layer.outputs),
                           .weight_offset = layer.weight_offset.value,
                           .weight_bytes = layer.weight_bytes.value});
  }
  return state;
}

}  // namespace tessera::runtime
