#include "runtime/memory_state.h"

#include <fmt/format.h>

#include <array>

#include "base/guarded.h"

namespace tessera::runtime {

Result<std::shared_ptr<BlockState>> BlockState::allocate(std::shared_ptr<MemoryState> memory,
                                                         Bytes bytes) {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  if (bytes.value < 1) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("a block of {} bytes; allowed 1 and more", bytes.value)};
  }
  const std::array parts = {bytes};
  TESSERA_TRY(device::MirroredBlock block, memory->mirror.allocate(parts));
  return make_shared_here<BlockState>(std::move(memory), std::move(block));
}

BlockState::~BlockState() {
  (void)guarded("", [this] { return memory->mirror.release(block); });
}

LayersState::~LayersState() {
  if (ids.empty()) return;
  (void)guarded("", [this] { return memory->entry.device().unload(ids.front()); });
}

Result<std::shared_ptr<LayersState>> LayersState::load(std::shared_ptr<MemoryState> memory,
                                                       const Network& network) {
  TESSERA_RETURN_IF_ERROR(memory->check_process());
  auto state = make_shared_here<LayersState>();
  TESSERA_TRY(const std::vector<device::LoadedLayer> loaded,
              memory->entry.device().load_layers(network.share()));
  state->memory = std::move(memory);
  for (const device::LoadedLayer& layer : loaded) state->ids.push_back(layer.id);
  const graph::Graph& graph = network.state().graph();
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
