// How the tensors of one run get to a device and back. Each lies where it costs least:
//
//                     memory of its own                       memory shared with the host
//   tensor, view      a block of the run's, written or read   in place
//   block of it       the block: sent if the host has newer   the block
//   block elsewhere   brought to the host, then as a view     the same
//   output to keep    a block of the run's, which is kept     the same
//
// What lies in place is kept for as long as the device uses it, also when the run was
// abandoned.
#pragma once

#include <memory>
#include <vector>

#include "runtime/network_packet.h"
#include "runtime/runtime_state.h"

namespace tessera::runtime {

// What an execute stage does with outputs.
struct OutputRules {
  std::uint32_t later = 0;  // bit s: stage s of the pipeline is an execute stage behind it
  bool chained = false;     // the next execute stage may read them on the device
  std::size_t next = 0;     // which that is, among the pipeline's stages, where they are
  // The stage may find inputs that stayed on a device.
  bool reads_chained = false;

  // Whether those of a task that skips these stages are the task's, and go where it wants them.
  bool last(std::uint32_t skipped_stages) const { return (later & ~skipped_stages) == 0; }
  // Whether they stay on the device.
  bool stay(std::uint32_t skipped_stages) const {
    return chained && (skipped_stages >> next & 1U) == 0;
  }
};

// A run of a packet on a device.
struct RunOf {
  const ModelState& model;
  DeviceEntry& device;
  const OutputRules& rules;
  NetworkPacket& packet;
  std::size_t index = 0;

  std::vector<Tensor>& tensors() const { return packet.task.runs[index]; }
  const std::vector<TensorDescription>& outputs() const { return model.device_outputs(); }
  const NetworkOutput* wanted(std::size_t output) const;  // null: a tensor
};

// What one run takes on one device; its lists keep their room.
struct RunTensors {
  // Where the bytes of an input or output are.
  struct Slot {
    device::Address address;
    bool own = false;            // in a block of the run's
    std::span<std::byte> bytes;  // on the host, of what is in an own block or in place; may be none
    std::shared_ptr<BlockState> block;  // of the task's, whose place it is
  };
  std::vector<device::MemoryBlock> blocks;   // own, of the device's memory
  std::vector<device::MemoryBlock> adopted;  // host memory in place
  std::vector<Slot> input_slots, output_slots;
  std::vector<device::Address> inputs, outputs;
  std::vector<Tensor> results;  // outputs in place
  // Takes the tensors over if the device still uses them when the run is given up.
  struct Kept {
    std::vector<Tensor> inputs, results;
  };
  std::shared_ptr<Kept> kept;  // shared with the device
  bool counted = false;        // it is one of those that RunMemory counts
};

// The devices that hold the blocks of the run's inputs and of its outputs, as bytes: the one with
// most, null if there is none.
DeviceEntry* home_of(const NetworkPacket& packet, std::size_t run, const OutputRules& rules);

// Blocks for all that needs one. The inputs have been checked. False: there is no memory now, and
// `who` is notified when there may be (run_memory.h).
Result<bool> take_blocks(const RunOf& run, RunMemory::Waiter& who, RunTensors& tensors);
// The device gets the latest bytes; the tag says whose transfers they are.
Status bring_over(const RunOf& run, RunTensors& tensors, const device::TransferTag& tag);
// The run was good: its outputs take the place of its inputs.
Status take_back(const RunOf& run, RunTensors& tensors, const device::TransferTag& tag);
// `over`: the device has done with it for sure.
void give_blocks(const RunOf& run, RunTensors& tensors, bool over);

}  // namespace tessera::runtime
