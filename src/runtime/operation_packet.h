// The packet of the single-operation kind: one layer of a network, or one of the four functions of
// a simple accelerator, on blocks of device memory. Its fields are declared here and nowhere else.
//
//   pre      inputs and weights over, where the host has newer bytes; addresses translated
//   execute  submit, wait
//   post     outputs back, if the task asks for it
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "runtime/memory_state.h"
#include "runtime/task_packet.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class OperationPacket : public TaskPacket {
 public:
  std::shared_ptr<LayersState> layers;  // shared with the application: of a layer's task
  std::size_t layer_index = 0;
  std::optional<operations::Operation> operation;  // the other sort of task, with its sizes

  // Host side: blocks, shared with the application, which must leave their bytes alone meanwhile.
  std::vector<std::shared_ptr<BlockState>> inputs, outputs;
  std::shared_ptr<BlockState> weights;
  std::int64_t weight_offset = 0;  // bytes into the weights' block
  bool fetch = false;

  // Device side: base + offset of each, found before execution.
  std::vector<device::Address> input_addresses, output_addresses;
  device::Address weight_address;
  // Where its transfers belong. The kernel is chosen when the task is submitted; before that it is
  // known where there is one alone.
  device::TransferTag transfers;

  std::shared_ptr<void> payload;  // the application's own

  void give(TaskResult& result) override { result.payload = std::move(payload); }
  void clear() override {
    TaskPacket::clear();
    layers.reset();
    layer_index = 0;
    operation.reset();
    inputs.clear();
    outputs.clear();
    weights.reset();
    weight_offset = 0;
    fetch = false;
    input_addresses.clear();
    output_addresses.clear();
    weight_address = {};
    transfers = {};
    payload.reset();
  }
};

inline OperationPacket& operation_packet(const pipeline::PacketPtr& packet) {
  return static_cast<OperationPacket&>(*packet);
}

}  // namespace tessera::runtime
