#include "store/lease_keeper.h"

#include <utility>

namespace tessera::store {

LeaseKeeper::LeaseKeeper(Store& store, Clock clock, LeaseKeeperOptions options)
    : store_(store), clock_(std::move(clock)), options_(options) {}

Result<LeaseKeeper::Granted> LeaseKeeper::grant() {
  const TimePoint sent = clock_();
  TESSERA_TRY(const Lease lease, store_.grant_lease(options_.ttl, options_.timeout));
  return Granted{lease, sent};
}

void LeaseKeeper::hold(const Granted& granted) {
  const std::lock_guard lock(mutex_);
  lease_ = granted.lease.id;
  ttl_ = granted.lease.ttl;
  held_until_ = granted.sent + ttl_;
  next_renewal_ = granted.sent + ttl_ / 3;
}

void LeaseKeeper::give_back(const Granted& granted) {
  (void)store_.revoke_lease(granted.lease.id, options_.timeout);
}

LeaseKeeper::Renewal LeaseKeeper::renew_if_due() {
  LeaseId lease = 0;
  const TimePoint sent = clock_();
  {
    const std::lock_guard lock(mutex_);
    if (lease_ == 0 || sent < next_renewal_) return Renewal::kNotDue;
    lease = lease_;
  }
  const Result<store::Renewal> renewed = store_.renew_lease(lease, options_.timeout);
  const std::lock_guard lock(mutex_);
  if (lease_ != lease) return Renewal::kNotDue;  // given up meanwhile
  if (!renewed.ok()) {
    next_renewal_ = clock_() + ttl_ / 12;
    return Renewal::kNoAnswer;
  }
  if (!renewed->is_alive) {
    lease_ = 0;
    return Renewal::kEnded;
  }
  ttl_ = renewed->ttl;
  held_until_ = sent + ttl_;
  next_renewal_ = sent + ttl_ / 3;
  return Renewal::kRenewed;
}

LeaseId LeaseKeeper::lease() const {
  const std::lock_guard lock(mutex_);
  return lease_;
}

std::chrono::milliseconds LeaseKeeper::ttl() const {
  const std::lock_guard lock(mutex_);
  return ttl_;
}

LeaseKeeper::TimePoint LeaseKeeper::held_until() const {
  const std::lock_guard lock(mutex_);
  return held_until_;
}

LeaseId LeaseKeeper::forget() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lease_, 0);
}

void LeaseKeeper::revoke() {
  if (const LeaseId lease = forget(); lease != 0) {
    (void)store_.revoke_lease(lease, options_.timeout);
  }
}

}  // namespace tessera::store
