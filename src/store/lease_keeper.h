// Keeps a lease by renewing it, and knows how long it is certainly still held.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "store/store.h"

namespace tessera::store {

struct LeaseKeeperOptions {
  // Called once, on the keeper's thread, when the store says that the lease has ended. Not called
  // while the store cannot be reached: that shows in held_until(). Does not stop the keeper.
  std::function<void()> on_ended{};
};

// A thread of its own renews three times a TTL, and more often once that has failed. Its destructor
// stops renewing and leaves the lease to end; revoke() ends it now. Thread-safe. The store outlives it.
class LeaseKeeper {
 public:
  using Clock = std::chrono::steady_clock;

  static Result<std::unique_ptr<LeaseKeeper>> start(Store& store, std::chrono::milliseconds ttl,
                                                    std::chrono::milliseconds timeout,
                                                    LeaseKeeperOptions options = {});
  ~LeaseKeeper();

  LeaseId lease() const;
  std::chrono::milliseconds ttl() const;

  // The lease has not ended before this moment: the TTL counted from when the last renewal that
  // succeeded was sent. Who must be certain of the lease stops before it.
  Clock::time_point held_until() const;
  // The store said that it has ended.
  bool has_ended() const;

  // Stops renewing; the lease ends by itself.
  void stop();
  Status revoke(std::chrono::milliseconds timeout);

 private:
  class Thread;
  explicit LeaseKeeper(std::unique_ptr<Thread> thread);
  std::unique_ptr<Thread> thread_;
};

}  // namespace tessera::store
