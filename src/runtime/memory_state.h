// What is behind Memory, Block and Layers.
#pragma once

#include <memory>
#include <vector>

#include "device/mirror.h"
#include "device/operation.h"
#include "runtime/runtime_state.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class MemoryState {
 public:
  MemoryState(std::shared_ptr<RuntimeState> runtime, DeviceEntry& entry)
      : runtime_(std::move(runtime)),
        entry(entry),
        mirror(entry.device()),
        operations(entry.device(), entry.chip()) {}

  Status check_process() const { return runtime_->check_process("memory"); }

 private:
  const std::shared_ptr<RuntimeState> runtime_;  // keeps the device; goes last

 public:
  DeviceEntry& entry;
  device::Mirror mirror;
  device::OperationSet operations;
};

class BlockState {
 public:
  static Result<std::shared_ptr<BlockState>> allocate(std::shared_ptr<MemoryState> memory,
                                                      Bytes bytes);
  BlockState(std::shared_ptr<MemoryState> memory, device::MirroredBlock block)
      : memory(std::move(memory)), block(std::move(block)) {}
  ~BlockState();

  const std::shared_ptr<MemoryState> memory;  // shared by its blocks
  const device::MirroredBlock block;
};

class LayersState {
 public:
  // Loads the network's layers to the memory's device.
  static Result<std::shared_ptr<LayersState>> load(std::shared_ptr<MemoryState> memory,
                                                   const Network& network);
  LayersState() = default;
  ~LayersState();  // the device gives them back
  LayersState(const LayersState&) = delete;
  LayersState& operator=(const LayersState&) = delete;

  std::shared_ptr<MemoryState> memory;  // shared with its blocks
  std::vector<Layer> list;
  std::vector<device::LoadedId> ids;  // of each
};

}  // namespace tessera::runtime
