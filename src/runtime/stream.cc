#include "runtime/stream.h"

namespace tessera::runtime {

StreamState::StreamState(std::uint32_t id, const StreamOptions& options)
    : id_(id),
      ordered_(options.order == StreamOrder::kSubmission),
      priority_(options.priority),
      ring_(ordered_ ? kFirstRing : 0) {}

void StreamState::open(JobReference job, std::uint64_t id, std::shared_ptr<StreamState> self,
                       std::function<void(TaskOutcome)> callback) {
  const std::lock_guard lock(mutex_);
  if (ordered_ && next_ - first_ == ring_.size()) {
    std::vector<JobReference> larger(ring_.size() * 2);
    for (std::uint64_t i = first_; i < next_; ++i) larger[i % larger.size()] = std::move(place(i));
    ring_ = std::move(larger);
  }
  job->open(id, next_, std::move(self), std::move(callback));
  ++open_;
  if (ordered_) place(next_) = std::move(job);
  ++next_;
}

void StreamState::settled(JobState& job, bool in_turn) {
  if (!in_turn || !ordered_) complete_at_once(job);
  deliver();
}

JobReference* StreamState::place_of(const JobState& job) {
  if (!ordered_ || job.sequence() < first_) return nullptr;
  JobReference& found = place(job.sequence());
  return found.get() == &job ? &found : nullptr;
}

bool StreamState::take_held_back(JobState& job) {
  const std::lock_guard lock(mutex_);
  JobReference* const own = place_of(job);
  if (own == nullptr || !job.ready()) return false;
  bool held_back = false;
  for (std::uint64_t i = first_; i < job.sequence() && !held_back; ++i) {
    const JobReference& before = place(i);
    held_back = before.get() != nullptr && !before->ready();
  }
  if (held_back) own->reset();
  return held_back;
}

void StreamState::complete_at_once(JobState& job) {
  JobReference mine(&job);
  {
    const std::lock_guard lock(mutex_);
    if (JobReference* const place = place_of(job)) place->reset();  // the others pass it over
    if (job.calls_back()) {
      (at_once_.get() == nullptr ? at_once_ : last_at_once_->behind()) = std::move(mine);
      last_at_once_ = &job;
      return;
    }
  }
  job.complete();
  const std::lock_guard lock(mutex_);
  completed();
}

void StreamState::completed() {
  if (--open_ == 0) done_.notify_all();
}

JobReference StreamState::next() {
  if (at_once_.get() != nullptr) {
    JobReference first = std::move(at_once_);
    at_once_ = std::move(first->behind());
    return first;
  }
  while (first_ < next_ && ordered_) {
    JobReference& job = place(first_);
    if (job.get() != nullptr && !job->ready()) return {};
    ++first_;
    if (job.get() != nullptr) return std::move(job);
  }
  return {};
}

void StreamState::deliver() {
  std::unique_lock lock(mutex_);
  // Another thread is at it, and looks again after each job.
  if (delivering_) return;
  delivering_ = true;
  for (JobReference job = next(); job.get() != nullptr; job = next()) {
    lock.unlock();
    job->complete();
    job.reset();
    lock.lock();
    completed();
  }
  delivering_ = false;
}

void StreamState::wait_until_done() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return open_ == 0; });
}

}  // namespace tessera::runtime
