// The packet of the compiled-network kind: a whole network is the task. Its fields are declared
// here and nowhere else.
#pragma once

#include <string>

#include "pipeline/packet.h"
#include "runtime/job.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

class NetworkPacket : public pipeline::Packet {
 public:
  Task task;         // the runs' inputs, and after an execute stage its outputs
  JobReference job;  // to be settled

  bool narrowed = false;  // inputs came as float32 and were narrowed: outputs go back as float32

  // What execute stages note.
  std::int64_t cycles = 0;
  const std::string* device = nullptr;  // that ran it last; the name lives as long as the runtime
  std::string layer;                    // where it failed, if that is known
  pipeline::Nanoseconds transfer_in = 0, kernel = 0, transfer_out = 0;

  void clear() override {
    Packet::clear();
    task.runs.clear();
    task.payload.reset();
    job.reset();
    narrowed = false;
    cycles = 0;
    device = nullptr;
    layer.clear();
    transfer_in = kernel = transfer_out = 0;
  }
};

inline NetworkPacket& network_packet(const pipeline::PacketPtr& packet) {
  return static_cast<NetworkPacket&>(*packet);
}

}  // namespace tessera::runtime
