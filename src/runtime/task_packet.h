// What the packets of all kinds of accelerator share: the job to be settled, and what execute
// stages note. The fields of a kind are declared in its own header: network_packet.h for compiled
// networks, operation_packet.h for single layers and operations on device memory.
#pragma once

#include <string>

#include "pipeline/packet.h"
#include "runtime/job.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

class TaskPacket : public pipeline::Packet {
 public:
  JobReference job;

  std::int64_t cycles = 0;
  const std::string* device = nullptr;  // that ran it last; the name lives as long as the runtime
  std::string layer;                    // that it ran, or where it failed, if that is known
  pipeline::Nanoseconds transfer_in = 0, kernel = 0, transfer_out = 0;

  // Moves what the task made into the result.
  virtual void give(TaskResult& result) = 0;

  void clear() override {
    Packet::clear();
    job.reset();
    cycles = 0;
    device = nullptr;
    layer.clear();
    transfer_in = kernel = transfer_out = 0;
  }
};

}  // namespace tessera::runtime
