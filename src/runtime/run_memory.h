// The memory of a device that runs in flight hold for their tensors, and those that wait for some.
//
//   take() ─► all blocks of a run, or none: then its stage waits in turn, and none overtakes it
//   give() ─► the first that waits is notified, and tries again
//
// Outputs that stay on the device for the next stage hold memory, too, and their tasks may be
// behind the one that waits. Where only they could make room, the holder of such tasks is asked to
// bring them to the host.
//
// What a run that was given up still uses comes back when it is over or its device was reset,
// without a notification: waiters try again from time to time.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "device/device.h"

namespace tessera::runtime {

class RunMemory {
 public:
  // Notified that there may be memory now: with the lock held, so it must not call this object.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void memory_given() = 0;
  };

  // May hold tasks whose outputs stayed on the device: notified as a waiter is.
  class Holder {
   public:
    virtual ~Holder() = default;
    virtual void memory_short() = 0;
  };

  explicit RunMemory(device::Device& device) : device_(device) {}

  void join(Holder& holder);
  void part(Holder& holder);

  // Appends blocks of these sizes. False: there is no memory now, and `who` is notified when there
  // may be, or tries again. The error is kDoesNotFit where no run holds any that could come back.
  Result<bool> take(Waiter& who, std::span<const Bytes> sizes,
                    std::vector<device::MemoryBlock>& blocks);
  // Of one take(); clears the list.
  void give(std::vector<device::MemoryBlock>& blocks);
  // A block stays on the device for the next stage, and does so no more.
  void stays();
  void stays_no_more();
  // Those that stay should go to the host now.
  bool is_short() const { return short_.load(std::memory_order_relaxed); }
  // Whether there is a waiter.
  bool is_wanted() const { return wanted_.load(std::memory_order_relaxed); }
  // It waits no more.
  void leave(Waiter& who);

 private:
  // With the lock held.
  Status allocate(std::span<const Bytes> sizes, std::vector<device::MemoryBlock>& blocks);
  void wait(Waiter& who);
  // There is more memory than before.
  void tell_of_more();
  // After every change.
  void tell_first();
  // Of the first that waits, if there is one.
  void end_turn();

  device::Device& device_;
  std::mutex mutex_;
  int taken_ = 0;                 // runs that hold blocks
  int stay_ = 0;                  // blocks that stay
  std::vector<Waiter*> waiting_;  // first in front
  std::vector<Holder*> holders_;
  // Since when the first that waits has tried, and nothing came back.
  std::optional<std::chrono::steady_clock::time_point> in_vain_since_;
  std::atomic<bool> wanted_{false}, short_{false};
};

}  // namespace tessera::runtime
