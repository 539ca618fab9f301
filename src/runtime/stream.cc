#include "runtime/stream.h"

namespace tessera::runtime {

void StreamState::open(JobReference job, std::uint64_t id, std::shared_ptr<StreamState> self,
                       std::function<void(TaskOutcome)> callback) {
  const std::lock_guard lock(mutex_);
  if (next_ - first_ == ring_.size()) {
    std::vector<JobReference> larger(ring_.size() * 2);
    for (std::uint64_t i = first_; i < next_; ++i) larger[i % larger.size()] = std::move(place(i));
    ring_ = std::move(larger);
  }
  job->open(id, next_, std::move(self), std::move(callback));
  place(next_++) = std::move(job);
}

void StreamState::deliver() {
  std::unique_lock lock(mutex_);
  // Somebody is at it, and looks again after each job.
  if (delivering_) return;
  delivering_ = true;
  while (first_ < next_ && place(first_)->ready()) {
    JobReference job = std::move(place(first_));
    lock.unlock();
    job->complete();
    job.reset();
    lock.lock();
    ++first_;
  }
  delivering_ = false;
  if (first_ == next_) done_.notify_all();
}

void StreamState::wait_until_done() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return first_ == next_; });
}

}  // namespace tessera::runtime
