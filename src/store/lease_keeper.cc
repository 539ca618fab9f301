#include "store/lease_keeper.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/deadline.h"

namespace tessera::store {

using Milliseconds = std::chrono::milliseconds;

class LeaseKeeper::Thread {
 public:
  Thread(Store& store, Lease lease, Clock::time_point sent, LeaseKeeperOptions options)
      : store_(store), lease_(lease), options_(std::move(options)), held_until_(sent + lease.ttl) {
    thread_ = std::thread([this] { run(); });
  }
  ~Thread() { stop(); }

  Store& store() { return store_; }
  const Lease& lease() const { return lease_; }
  Clock::time_point held_until() const {
    const std::lock_guard lock(mutex_);
    return held_until_;
  }
  bool has_ended() const {
    const std::lock_guard lock(mutex_);
    return has_ended_;
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      is_stopping_ = true;
      wake_.notify_all();
    }
    const std::lock_guard lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run() {
    const Milliseconds third = std::max(lease_.ttl / 3, Milliseconds(1));
    const Milliseconds soon = std::max(lease_.ttl / 10, Milliseconds(1));
    Milliseconds pause = third;
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, pause, [this] { return is_stopping_; })) {
      lock.unlock();
      const Clock::time_point sent = Clock::now();
      // Not longer than a third, so that there are several attempts within the lease's time.
      const Result<Renewal> renewal = store_.renew_lease(lease_.id, third);
      lock.lock();
      pause = renewal.ok() ? third : soon;
      if (!renewal.ok()) continue;
      if (renewal->is_alive) {
        held_until_ = std::max(held_until_, sent + renewal->ttl);
        continue;
      }
      has_ended_ = true;
      held_until_ = std::min(held_until_, sent);
      lock.unlock();
      if (options_.on_ended) options_.on_ended();
      return;
    }
  }

  Store& store_;
  const Lease lease_;
  const LeaseKeeperOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  bool is_stopping_ = false, has_ended_ = false;
  Clock::time_point held_until_;
  std::mutex join_mutex_;
  std::thread thread_;
};

LeaseKeeper::LeaseKeeper(std::unique_ptr<Thread> thread) : thread_(std::move(thread)) {}
LeaseKeeper::~LeaseKeeper() = default;

Result<std::unique_ptr<LeaseKeeper>> LeaseKeeper::start(Store& store, Milliseconds ttl,
                                                        Milliseconds timeout,
                                                        LeaseKeeperOptions options) {
  const Clock::time_point sent = Clock::now();
  TESSERA_TRY(const Lease lease, store.grant_lease(ttl, timeout));
  return std::unique_ptr<LeaseKeeper>(
      new LeaseKeeper(std::make_unique<Thread>(store, lease, sent, std::move(options))));
}

LeaseId LeaseKeeper::lease() const { return thread_->lease().id; }
Milliseconds LeaseKeeper::ttl() const { return thread_->lease().ttl; }
LeaseKeeper::Clock::time_point LeaseKeeper::held_until() const { return thread_->held_until(); }
bool LeaseKeeper::has_ended() const { return thread_->has_ended(); }
void LeaseKeeper::stop() { thread_->stop(); }

Status LeaseKeeper::revoke(Milliseconds timeout) {
  thread_->stop();
  return thread_->store().revoke_lease(lease(), timeout);
}

}  // namespace tessera::store
