// Memory that the host and a device hold together, and tasks on it: single layers of a network and
// single operations, chained without moving what lies between them.
//
//   Memory memory = *runtime.open_memory("sim0");
//   Block x = *memory.allocate(bytes), y = *memory.allocate(bytes), z = ...;
//   ... write x.bytes(); x.wrote();
//   stream.submit_layer(layers, {.layer = 0, .inputs = {x}, .outputs = {y}})   x is sent
//   stream.submit_layer(layers, {.layer = 1, .inputs = {y}, .outputs = {z}})   nothing is moved
//   ... z.fetch(); read z.bytes()                                              z comes back
//
// Networks read and write blocks as layers do, in place of tensors of the task's own:
//
//   Block picture = *memory.upload(tensor);
//   Block features = *memory.allocate(first.outputs()[0]);
//
//   one.submit_network({.inputs = {picture}, .outputs = {{.block = features}}})
//       the picture is sent
//
//   two.submit_network({.inputs = {features}})
//       the result comes back
//
//   one.submit_network({.inputs = {picture}, .outputs = {{.keep = true}}})
//       nothing is moved
//
// A byte is moved only when the other side has a newer one and it is needed there; weights go over
// once. Where host and device share memory nothing is moved at all, and nothing is copied.
//
// Order. Tasks use a block in the order in which they were submitted, whatever their streams and
// pipelines: one that reads it enters its pipeline when those before it that write it are done, one
// that writes it when all before it are done. The bytes on the host are the application's while no
// task that was submitted uses the block. If a task that was to write a block ends without a
// result, the block holds nothing: tasks that read it fail with that error, until it is written
// again. A task that was cancelled or is late, or whose device failed, uses its blocks until its
// run on the device is over: writers wait for that.
//
// Handles may be copied and used by several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tessera/operation.h"
#include "tessera/result.h"
#include "tessera/session.h"

namespace tessera {

namespace runtime {
class BlockState;
class LayersState;
class MemoryState;
}  // namespace runtime

// Bytes that host and device hold together: a handle that may be copied and used by several
// threads.
class Block {
 public:
  explicit Block(std::shared_ptr<runtime::BlockState> state) : state_(std::move(state)) {}
  std::span<std::byte> bytes() const;  // on the host
  // What lies in it; u8 in one dimension where the block was allocated by a number of bytes. Such a
  // block stands for any tensor of as many bytes.
  Format format() const;
  const Shape& dims() const;  // in elements of format()
  // Of a matrix in blocks, as an architecture may have them at the edges of networks: its shape
  // outside; dims() and the bytes are the blocks'. Empty: dense.
  const Shape& dense_dims() const;
  const std::string& device() const;  // its name
  // The host has changed the bytes. kUnavailable: a task that was submitted uses the block.
  Status wrote();
  // Makes them what the device last wrote, when the tasks that were submitted and write the block
  // are done; from a stage or a callback it does not wait, and the error is kUnavailable. If the
  // last of them failed, the error is its.
  Status fetch();
  const std::shared_ptr<runtime::BlockState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::BlockState> state_;  // shared with the tasks that use it
};

// The memory of one device.
class Memory {
 public:
  explicit Memory(std::shared_ptr<runtime::MemoryState> state) : state_(std::move(state)) {}
  // Zeros, or what was there before. kDoesNotFit where the device has no room.
  Result<Block> allocate(std::int64_t bytes);
  // Of a tensor's format and shape; its name does not count. Zeros, or what was there before.
  Result<Block> allocate(const TensorDescription& tensor);
  // The tensor as a block: its bytes are the block's, and go over with the first task that reads
  // them.
  Result<Block> upload(Tensor tensor);
  // The application's memory as a block, of which the host has the newer bytes. Where host and
  // device share memory, tasks read and write it in place if it begins at a multiple of 16 bytes
  // (else what they read and write is copied, and counted); otherwise it has its counterpart on the
  // device. It must stay until `owner` is released, by any thread: after the last handle of the
  // block is gone and no run uses it any more. Without an owner it must outlive the runtime. A byte
  // may be in one block of a device's; use that one again.
  Result<Block> wrap(std::span<std::byte> bytes, const TensorDescription& tensor,
                     std::shared_ptr<void> owner);
  const std::string& device() const;  // its name
  const std::shared_ptr<runtime::MemoryState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::MemoryState> state_;  // shared with its blocks
};

// One layer of a network: a node of the typed graph. Its tensors are in the device's formats, its
// weights bytes [weight_offset, weight_offset + weight_bytes) of the region that all layers share.
struct Layer {
  std::string name;
  std::vector<TensorDescription> inputs, outputs;
  std::int64_t weight_offset = 0, weight_bytes = 0;
};

// A network on a device layer by layer.
class Layers {
 public:
  explicit Layers(std::shared_ptr<runtime::LayersState> state) : state_(std::move(state)) {}
  const std::vector<Layer>& list() const;  // in the order in which they run
  const std::shared_ptr<runtime::LayersState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::LayersState> state_;  // shared with the tasks that run it
};

// Blocks of exactly the layer's tensors, in their order.
struct LayerTask {
  std::size_t layer = 0;
  std::vector<Block> inputs = {}, outputs = {};
  bool fetch = false;  // bring the outputs back as part of the task
};

// Elements of the application that a task reads or fills without a copy where it can: in place
// where host and device share memory, else straight from there to the device or back. The bytes
// must stay until `owner` is released, which may be after the task has ended: of one that was
// cancelled or is late, when no run uses them any more. Without an owner they must outlive the
// runtime. In place: if they begin at a multiple of 16 bytes.
struct TensorView {
  Format format = Format::kF32;
  Shape dims;
  std::span<std::byte> bytes;
  std::shared_ptr<void> owner = {};  // shared with the task
};

// What becomes of an output. Nothing said: a tensor of the result.
struct NetworkOutput {
  std::optional<Block> block = {};      // written on its device, and left there
  bool keep = false;                    // the same, in a new block that the result has
  std::optional<TensorView> view = {};  // the memory is filled
  bool fetch = false;                   // of a block: brought to the host as part of the task
};

// One run of a network. Blocks and views have the format and shape of its inputs and outputs. A run
// goes to the device that has its blocks if the stage uses that device and it is in order; if not,
// they are moved. No block may be written twice, or read and written.
struct NetworkTask {
  std::vector<std::variant<Tensor, TensorView, Block>> inputs;
  std::vector<NetworkOutput> outputs = {};  // empty, or one for each
};

// One operation on blocks of the device.
struct OperationTask {
  operations::Operation operation;
  Block input, output;
  std::optional<Block> weights = {};  // of a matrix product: a region of many, named by offset
  std::int64_t weight_offset = 0;
  bool fetch = false;
};

}  // namespace tessera
