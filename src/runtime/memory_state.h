// What is behind Memory, Block and Layers.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "device/operation.h"
#include "runtime/block_order.h"
#include "runtime/runtime_state.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class MemoryState {
 public:
  MemoryState(std::shared_ptr<RuntimeState> runtime, DeviceEntry& entry)
      : runtime_(std::move(runtime)), entry(entry), operations(entry.device(), entry.chip()) {}

  Status check_process() const { return runtime_->check_process("memory"); }

 private:
  const std::shared_ptr<RuntimeState> runtime_;  // keeps the device; goes last

 public:
  DeviceEntry& entry;
  device::OperationSet operations;
  device::Mirror& mirror() { return entry.mirror(); }
  RuntimeState& runtime() { return *runtime_; }
};

// The order of the tasks that use the rows of a growing state, and whether the rows hold something (growing_rows.h).
class RowOrder : public OrderedBlock {
 public:
  // A task that was to write the row ended without a result.
  virtual void row_failed(std::int64_t row, Status why) = 0;
  virtual Status valid() const = 0;
};

// What a block is that stands for rows of a state.
struct RowsOfState {
  std::shared_ptr<RowOrder> order = {};  // shared with the state; null: the block is one of its own
  std::int64_t written = -1;  // the row that it is for a task that writes it; -1: it is read
};

class BlockState : public OrderedBlock, public std::enable_shared_from_this<BlockState> {
 public:
  static Result<std::shared_ptr<BlockState>> allocate(std::shared_ptr<MemoryState> memory,
                                                      Bytes bytes);
  static Result<std::shared_ptr<BlockState>> allocate(std::shared_ptr<MemoryState> memory,
                                                      const TensorDescription& tensor);
  // Memory of the application.
  static Result<std::shared_ptr<BlockState>> wrap(std::shared_ptr<MemoryState> memory,
                                                  std::span<std::byte> bytes,
                                                  const TensorDescription& tensor,
                                                  std::shared_ptr<void> owner);
  // A block of its device's memory that a run has written; it is released in any case.
  static Result<std::shared_ptr<BlockState>> take_over(std::shared_ptr<MemoryState> memory,
                                                       const device::MemoryBlock& block,
                                                       const TensorDescription& tensor);
  // Bytes of a block that begin at `first`, as rows of a state: the memory remains the whole's.
  static Result<std::shared_ptr<BlockState>> rows_of(std::shared_ptr<BlockState> whole, Bytes first,
                                                     const TensorDescription& tensor,
                                                     RowsOfState rows);
  BlockState(std::shared_ptr<MemoryState> memory, device::MirroredBlock block)
      : memory(std::move(memory)), block(std::move(block)) {}
  ~BlockState() override;
  BlockState(const BlockState&) = delete;
  BlockState& operator=(const BlockState&) = delete;

  Bytes bytes() const { return Bytes{std::ssize(block.host)}; }
  device::Address address() const { return block.parts.front().base; }
  DeviceEntry& entry() const { return memory->entry; }
  // Whether it stands for the tensor: by its format, shape and layout, or if it has none by its
  // bytes, for a dense one.
  bool fits(const TensorDescription& tensor) const;
  std::string description() const;  // "f16 [1x8]", "12 bytes"

  // By the task that has its turn on the block (block_order.h), or by the host while none has.
  Status to_device(const device::TransferTag& tag = {});
  Status to_host(const device::TransferTag& tag = {});
  Status ran();    // the device has written it
  Status wrote();  // the host has
  // The latest bytes, wherever they are, without making the host's current.
  Status read(std::span<std::byte> to, const device::TransferTag& tag = {});

  // Block::wrote and Block::fetch, which mind the order.
  Status host_wrote();
  Status fetch();

  // Not ok: the task that was to write it ended without a result, and it holds nothing.
  Status valid() const;
  void invalidate(Status why) override;

  const std::shared_ptr<MemoryState> memory;  // shared by its blocks
  const device::MirroredBlock block;
  Format format = Format::kU8;  // set when it is made
  Shape dims, dense_dims;       // as in TensorDescription
  bool plain = false;           // made by a number of bytes
  bool stays = false;           // between two stages: run_memory.h counts it
  std::shared_ptr<BlockState>
      whole;  // of rows: shared with the other rows; null: it owns its memory
  RowsOfState rows;

 private:
  mutable std::mutex mutex_;
  Status valid_;
};

// How a tensor's format and shape read in messages: "f16 [1x8]".
std::string description_text(Format format, const Shape& dims);
// The same, with its layout: "f16 [40x200] in blocks of 32x64".
std::string description_text(const TensorDescription& tensor);

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
