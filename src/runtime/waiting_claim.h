// A turn on blocks that a calling thread waits for: of block_order.h.
#pragma once

#include <condition_variable>
#include <mutex>

#include "pipeline/own_thread.h"
#include "runtime/block_order.h"
#include "runtime/job.h"

namespace tessera::runtime {

class WaitingClaim : public BlockClaim {
 public:
  // Whether the calling thread is one that tasks need, so that it must not wait.
  static bool must_not_wait() {
    return pipeline::OwnThread::owner() != nullptr || JobState::in_callback_of() != nullptr;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ready_; });
  }

 private:
  void proceed() override {
    const std::lock_guard lock(mutex_);
    ready_ = true;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ready_ = false;
};

}  // namespace tessera::runtime
