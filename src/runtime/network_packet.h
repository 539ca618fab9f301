// The packet of the compiled-network kind: a whole network is the task. Its fields are declared
// here and nowhere else.
#pragma once

#include "runtime/task_packet.h"

namespace tessera::runtime {

class NetworkPacket : public TaskPacket {
 public:
  Task task;              // the runs' inputs, and after an execute stage its outputs
  bool narrowed = false;  // inputs came as float32 and were narrowed: outputs go back as float32

  void give(TaskResult& result) override {
    result.runs = std::move(task.runs);
    result.payload = std::move(task.payload);
  }
  void clear() override {
    TaskPacket::clear();
    task.runs.clear();
    task.payload.reset();
    narrowed = false;
  }
};

inline NetworkPacket& network_packet(const pipeline::PacketPtr& packet) {
  return static_cast<NetworkPacket&>(*packet);
}

}  // namespace tessera::runtime
