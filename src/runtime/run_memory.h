// The memory of a device that runs in flight hold for their tensors, and those that wait for some.
//
//   take() ─► all blocks of a run, or none: then its stage waits in turn, and nobody overtakes it
//   give() ─► the first that waits is told, and tries again
//
// What a run that was given up still uses comes back when it is over or its device was reset, and
// nobody tells: who waits tries again from time to time.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <mutex>
#include <span>
#include <vector>

#include "device/device.h"

namespace tessera::runtime {

class RunMemory {
 public:
  // Who is told that there may be memory now: with the lock held, so it must not call this object.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void memory_given() = 0;
  };

  explicit RunMemory(device::Device& device) : device_(device) {}

  // Appends blocks of these sizes. False: there is no memory now, and `who` is told when there may
  // be, or tries again. The error is kDoesNotFit where no run holds any that could come back.
  Result<bool> take(Waiter& who, std::span<const Bytes> sizes, std::vector<device::Block>& blocks);
  // Of one take(); clears the list.
  void give(std::vector<device::Block>& blocks);
  // Whether somebody waits.
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // It waits no more.
  void leave(Waiter& who);

 private:
  // With the lock held, after every change.
  void tell_first();
  // Of the first that waits, if there is one; with the lock held.
  void end_turn();

  device::Device& device_;
  std::mutex mutex_;
  int taken_ = 0;                 // runs that hold blocks
  std::vector<Waiter*> waiting_;  // first in front
  std::atomic<bool> wanted_{false};
};

}  // namespace tessera::runtime
