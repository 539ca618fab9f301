#include "runtime/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "runtime/stream.h"

namespace tessera::runtime {
namespace {

// `changed` with the lock held, until `condition` or for `patience`.
template <typename Condition>
bool wait_on(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
             std::chrono::nanoseconds patience, Condition condition) {
  if (patience == std::chrono::nanoseconds::max()) {
    changed.wait(lock, condition);
    return true;
  }
  return changed.wait_for(lock, patience, condition);
}

thread_local bool this_thread_is_in_the_application = false;

}  // namespace

ApplicationCall::ApplicationCall()
    : outer_(std::exchange(this_thread_is_in_the_application, true)) {}
ApplicationCall::~ApplicationCall() { this_thread_is_in_the_application = outer_; }
bool ApplicationCall::on_this_thread() { return this_thread_is_in_the_application; }

void JobListener::notify() {
  const std::lock_guard lock(mutex_);
  notified_ = true;
  changed_.notify_all();
}

void JobListener::wait(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  wait_on(changed_, lock, patience, [this] { return notified_; });
}

void JobState::open(std::uint64_t id, std::uint64_t sequence, std::shared_ptr<StreamState> stream,
                    std::function<void(TaskOutcome)> callback) {
  id_ = id;
  sequence_ = sequence;
  stream_ = std::move(stream);
  callback_ = std::move(callback);
}

void JobState::clear() {
  stream_.reset();
  callback_ = nullptr;
  cancelled_ = settled_ = ready_ = done_ = false;
  taken_ = false;
  outcome_.reset();
}

void JobState::drop_reference() {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.give_back(this);
}

void JobState::cancel() {
  cancelled_.store(true, std::memory_order_relaxed);
  settle_failed(TaskFailure::kCancelled,
                {ErrorCode::kUnavailable, fmt::format("task {} was cancelled", id_)});
}

void JobState::settle_failed(TaskFailure failure, Error error) {
  if (settled()) return;
  TaskError failed;
  failed.failure = failure;
  failed.error = std::move(error);
  failed.task = id_;
  failed.sequence = sequence_;
  settle(TaskOutcome(std::move(failed)));
}

void JobState::settle(TaskOutcome&& outcome) {
  if (settled_.exchange(true, std::memory_order_acq_rel)) return;
  {
    const std::lock_guard lock(mutex_);
    outcome_ = std::move(outcome);
  }
  // The stream may complete this job, and its last reference go, before the call returns.
  const std::shared_ptr<StreamState> stream = stream_;
  ready_.store(true, std::memory_order_release);
  stream->deliver();
}

void JobState::complete() {
  if (callback_) {
    TaskOutcome outcome = [&] {
      const std::lock_guard lock(mutex_);
      taken_ = true;
      return std::move(*outcome_);
    }();
    const ApplicationCall call;
    callback_(std::move(outcome));
    callback_ = nullptr;  // what it holds may go now; the last handle of a pipeline, say
  }
  const std::lock_guard lock(mutex_);
  done_.store(true, std::memory_order_release);
  if (waiting_ > 0) changed_.notify_all();
  for (JobListener* listener : listeners_) listener->notify();
  listeners_.clear();
}

std::optional<TaskOutcome> JobState::wait(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool finished = wait_on(changed_, lock, patience, [this] { return done(); });
  --waiting_;
  if (!finished) return std::nullopt;
  if (taken_) {
    TaskError error;
    error.error = {ErrorCode::kInvalidArgument,
                   fmt::format("the outcome of task {} was taken already", id_)};
    error.task = id_;
    error.sequence = sequence_;
    return TaskOutcome(std::move(error));
  }
  taken_ = true;
  return std::move(outcome_);
}

bool JobState::listen(JobListener* listener) {
  const std::lock_guard lock(mutex_);
  if (done()) return false;
  listeners_.push_back(listener);
  return true;
}

void JobState::forget(JobListener* listener) {
  const std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

std::unique_ptr<JobPool, JobPool::LetGo> JobPool::make() {
  return std::unique_ptr<JobPool, LetGo>(new JobPool());
}

JobReference JobPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    all_.push_back(std::make_unique<JobState>(*this));
    free_.reserve(all_.size());
    return JobReference(all_.back().get());
  }
  JobState* const state = free_.back();
  free_.pop_back();
  return JobReference(state);
}

void JobPool::give_back(JobState* state) {
  state->clear();
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(state);
    last = !owned_ && free_.size() == all_.size();
  }
  if (last) delete this;
}

void JobPool::let_go() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    owned_ = false;
    last = free_.size() == all_.size();
  }
  if (last) delete this;
}

std::size_t JobPool::made() const {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

}  // namespace tessera::runtime
