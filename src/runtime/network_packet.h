// The packet of the compiled-network kind: a whole network is the task. Its fields are declared
// here and nowhere else.
#pragma once

#include <algorithm>

#include "runtime/run_values.h"
#include "runtime/task_packet.h"

namespace tessera::runtime {

class NetworkPacket : public TaskPacket {
 public:
  Task task;  // the runs' inputs, and after an execute stage its outputs
  // Beside `task.runs`: what is not in the tensors' bytes. Empty, or an entry for each of some
  // runs.
  std::vector<RunValues> values;
  std::vector<NetworkOutput> outputs;  // where those of its one run go; empty: into tensors
  bool tensors_only = false;           // debugging looks at all of them: nothing stays on a device
  bool narrowed = false;  // inputs came as float32 and were narrowed: outputs go back as float32

  // Of a run; made where there are none.
  RunValues& values_of(std::size_t run) {
    if (values.size() <= run) values.resize(run + 1);
    return values[run];
  }
  // Ordinary tensors of all values.
  Status gather_runs() {
    for (std::size_t run = 0; run < std::min(values.size(), task.runs.size()); ++run) {
      TESSERA_RETURN_IF_ERROR(gather_all(task.runs[run], values[run]));
    }
    values.clear();
    return {};
  }
  Status deliver() override {
    for (std::size_t run = outputs.empty() || task.runs.empty() ? 0 : 1; run < task.runs.size();
         ++run) {
      if (run < values.size()) TESSERA_RETURN_IF_ERROR(gather_all(task.runs[run], values[run]));
    }
    if (outputs.empty()) return {};
    if (task.runs.empty()) task.runs.emplace_back();
    return runtime::deliver(task.runs.front(), values_of(0), outputs);
  }

  void give(TaskResult& result) override {
    leave_out_rows();
    result.runs = std::move(task.runs);
    if (!outputs.empty()) {
      for (const RunValue& value : values.front()) {
        result.blocks.push_back(value.block == nullptr ? std::nullopt
                                                       : std::optional<Block>(value.block));
      }
    }
    result.payload = std::move(task.payload);
  }
  // The stream has them.
  void leave_out_rows() {
    for (std::size_t i = outputs.size(); i-- > 0;) {
      if (!outputs[i].block || outputs[i].block->state()->rows.order == nullptr) continue;
      const auto at = static_cast<std::ptrdiff_t>(i);
      task.runs.front().erase(task.runs.front().begin() + at);
      values.front().erase(values.front().begin() + at);
    }
  }
  void clear() override {
    TaskPacket::clear();
    task.runs.clear();
    task.payload.reset();
    values.clear();
    outputs.clear();
    tensors_only = false;
    narrowed = false;
  }
};

inline NetworkPacket& network_packet(const pipeline::PacketPtr& packet) {
  return static_cast<NetworkPacket&>(*packet);
}

}  // namespace tessera::runtime
