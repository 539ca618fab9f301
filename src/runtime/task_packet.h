// What the packets of all kinds of accelerator share: the job to be settled, and what execute
// stages note. The fields of a kind are declared in its own header: network_packet.h for compiled
// networks, operation_packet.h for single layers and operations on device memory.
#pragma once

#include <string>

#include "pipeline/packet.h"
#include "runtime/block_order.h"
#include "runtime/job.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

// Where a task enters whose turn on its blocks has come.
class Entrance {
 public:
  virtual ~Entrance() = default;
  virtual void let_in(pipeline::PacketPtr packet) = 0;
};

// The turn of a packet on the blocks of its task. It holds the packet until then.
class PacketTurn : public BlockClaim {
 public:
  Entrance* entrance = nullptr;
  pipeline::PacketPtr packet;
  // A device may use the blocks after the task (retained_turns.h).
  bool retained = false;
  std::vector<std::weak_ptr<OrderedBlock>> blocks;  // those of `uses`
  std::shared_ptr<PacketTurn> next;                 // of those that are retained
  void proceed() override { entrance->let_in(std::move(packet)); }
};

class TaskPacket : public pipeline::Packet {
 public:
  JobReference job;
  std::shared_ptr<PacketTurn> turn;  // shared with devices that run it; null: it uses no blocks

  std::int64_t cycles = 0, host_cycles = 0, transfer_cycles = 0;
  std::int64_t transfer_cycles_saved = 0;  // of what stays on the device, which runs count
  const std::string* device = nullptr;  // that ran it last; the name lives as long as the runtime
  std::string layer;                    // that it ran, or where it failed, if that is known
  pipeline::Nanoseconds transfer_in = 0, kernel = 0, transfer_out = 0;

  std::vector<ValueNote> value_notes;

  void add_cycles(const device::Completion& completion) {
    cycles += completion.cycles;
    if (completion.details == nullptr) return;
    host_cycles += completion.details->host_cycles;
    transfer_cycles += completion.details->transfer_cycles;
  }
  // A block that is named twice has one place, as a writer if it is written at all.
  void add_use(const std::shared_ptr<OrderedBlock>& block, bool writes) {
    if (turn == nullptr) turn = std::make_shared<PacketTurn>();
    for (BlockClaim::Use& use : turn->uses) {
      if (use.block != block) continue;
      use.writes = use.writes || writes;
      return;
    }
    turn->blocks.emplace_back(block);
    turn->uses.push_back({block, writes});
  }
  // Puts what the task made where it is wanted; before give(), while it has its turn.
  virtual Status deliver() { return {}; }
  // Moves what the task made into the result.
  virtual void give(TaskResult& result) = 0;

  void clear() override {
    Packet::clear();
    job.reset();
    turn.reset();
    cycles = host_cycles = transfer_cycles = transfer_cycles_saved = 0;
    device = nullptr;
    layer.clear();
    value_notes.clear();
    transfer_in = kernel = transfer_out = 0;
  }
};

}  // namespace tessera::runtime
