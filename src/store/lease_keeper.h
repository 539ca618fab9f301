// Keeps a lease: renews it when that is due, and knows how long it is certainly still held.
//
//   held_until = when the last renewal that succeeded was sent + TTL
//
// It has no thread and no clock of its own: whoever has one of each calls renew_if_due() often.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>

#include "store/store.h"

namespace tessera::store {

struct LeaseKeeperOptions {
  std::chrono::milliseconds ttl{3000};
  std::chrono::milliseconds timeout{700};  // of one call to the store
};

// Thread-safe, but renew_if_due() by one thread at a time. The store outlives it. Its destructor leaves the
// lease to end.
class LeaseKeeper {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Clock = std::function<TimePoint()>;

  LeaseKeeper(Store& store, Clock clock, LeaseKeeperOptions options);

  // A lease that the store has granted, and when it was asked for it. Kept from hold() on; what is not to be kept
  // is given back.
  struct Granted {
    Lease lease{};
    TimePoint sent{};
  };
  Result<Granted> grant();
  void hold(const Granted& granted);
  void give_back(const Granted& granted);

  enum class Renewal {
    kNotDue,    // or none is held
    kRenewed,   // held_until() has moved
    kNoAnswer,  // the store was not reached; it is due again soon
    kEnded,     // the store says that it has ended: none is held any more
  };
  // Three times in a TTL, and twelve times once that has failed.
  Renewal renew_if_due();

  LeaseId lease() const;                  // 0: none
  std::chrono::milliseconds ttl() const;  // as it was granted
  // The last lease that was held has not ended before this moment, unless by whoever revoked it. Who must
  // be certain of it stops before.
  TimePoint held_until() const;

  // Keeps it no more; it ends by itself. Which one it was.
  LeaseId forget();
  // Ends it now.
  void revoke();

 private:
  Store& store_;
  const Clock clock_;
  const LeaseKeeperOptions options_;
  mutable std::mutex mutex_;  // of what follows
  LeaseId lease_ = 0;
  std::chrono::milliseconds ttl_{0};
  TimePoint held_until_{}, next_renewal_{};
};

}  // namespace tessera::store
