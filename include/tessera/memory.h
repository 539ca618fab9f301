// Memory that the host and a device hold together, and tasks on it: single layers of a network and
// single operations, chained without moving what lies between them.
//
//   Memory memory = *runtime.open_memory("sim0");
//   Block x = *memory.allocate(bytes), y = *memory.allocate(bytes), z = ...;
//   ... write x.bytes(); x.wrote();
//   stream.submit_layer(layers, {.layer = 0, .inputs = {x}, .outputs = {y}})   x goes over
//   stream.submit_layer(layers, {.layer = 1, .inputs = {y}, .outputs = {z}})   nothing is moved
//   ... z.fetch(); read z.bytes()                                              z comes back
//
// A byte is moved only when the other side has a newer one and it is needed there; weights go over
// once. Where host and device share memory nothing is moved at all. Handles may be copied and used
// by several threads; the bytes of one block belong to one thread or task at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

class Block {
 public:
  explicit Block(std::shared_ptr<runtime::BlockState> state) : state_(std::move(state)) {}
  std::span<std::byte> bytes() const;  // on the host
  Status wrote();                      // the host has changed them
  Status fetch();                      // makes them what the device last wrote
  const std::shared_ptr<runtime::BlockState>& state() const { return state_; }

 private:
  std::shared_ptr<runtime::BlockState> state_;  // shared with the tasks that use it
};

// The memory of one device.
class Memory {
 public:
  explicit Memory(std::shared_ptr<runtime::MemoryState> state) : state_(std::move(state)) {}
  Result<Block> allocate(std::int64_t bytes);
  const std::string& device() const;
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
  const std::vector<Layer>& list() const;
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

struct OperationTask {
  operations::Operation operation;
  Block input, output;
  std::optional<Block> weights = {};  // of a matrix product: a region of many, named by offset
  std::int64_t weight_offset = 0;
  bool fetch = false;
};

}  // namespace tessera
