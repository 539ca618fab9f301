// Holds threads back until it is opened, and counts those that have come.
//
//   stage, run or callback ─► pass() ─┤ closed ├─► open() ─► on
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

#include "tessera/runtime.h"

namespace tessera::scripted {

class Gate {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  bool is_open() const {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  // Waits until it is open.
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  // Waits until this many have come to it.
  void wait_for(int arrivals) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= arrivals; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

// A stage of the application that every task has to pass. The gate outlives the pipeline.
inline StageOptions gate_stage(Gate& gate, const std::string& name = "gate", int threads = 1) {
  return {.name = name,
          .function = [&gate](Task&) -> Status {
            gate.pass();
            return {};
          },
          .threads = threads};
}

}  // namespace tessera::scripted
