// Turns on blocks that last longer than their tasks. A run that was given up, or whose device was
// failed, may go on in its kernel, and reads and writes its blocks there until it is over. Its task
// is over long before; no other task may write the blocks until its devices have released the turn.
//
//   task over, run not ─► retain() ─► [ turn | turn ] ── devices release ─► the turn ends
//                                          └─ meanwhile devices that hang are looked after
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "runtime/block_order.h"
#include "runtime/device_entry.h"
#include "runtime/task_packet.h"

namespace tessera::runtime {

class RetainedTurns {
 public:
  // All outlive it, and the list of devices does not change any more when a task runs.
  RetainedTurns(BlockOrder& order, const std::vector<std::unique_ptr<DeviceEntry>>& devices)
      : order_(order), devices_(devices) {}
  // No task waits for a turn any more.
  ~RetainedTurns();
  RetainedTurns(const RetainedTurns&) = delete;
  RetainedTurns& operator=(const RetainedTurns&) = delete;

  // Before the task is submitted. The error is kUnavailable: the system has no thread left.
  Status prepare();
  // The turn's task is over. Devices share it for as long as they use the blocks.
  void retain(std::shared_ptr<PacketTurn> turn);

 private:
  void watch();
  void end(PacketTurn& turn);
  void look_after_devices();

  BlockOrder& order_;
  const std::vector<std::unique_ptr<DeviceEntry>>& devices_;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::shared_ptr<PacketTurn> first_;  // with the others behind it; shared with devices
  bool stop_ = false;
  std::thread thread_;  // begins with the first
};

}  // namespace tessera::runtime
