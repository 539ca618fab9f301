#include "runtime/job.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/application_call.h"
#include "base/check.h"
#include "base/guarded.h"
#include "runtime/patience.h"

namespace tessera::runtime {
namespace {

thread_local const JobPool* calling_back_for = nullptr;

}  // namespace

const JobPool* JobState::in_callback_of() { return calling_back_for; }

void JobListener::notify() {
  const std::lock_guard lock(mutex_);
  notified_ = true;
  changed_.notify_all();
}

void JobListener::wait(std::chrono::nanoseconds patience) {
  std::unique_lock lock(mutex_);
  wait_on(changed_, lock, patience, [this] { return notified_; });
}

void JobState::open(std::uint64_t id, std::uint64_t sequence, std::shared_ptr<JobOrder> order,
                    std::function<void(TaskOutcome)> callback) {
  id_ = id;
  sequence_ = sequence;
  order_ = std::move(order);
  callback_ = std::move(callback);
  keeps_room_.store(2, std::memory_order_relaxed);
  pool_.opened();
}

void JobState::clear() {
  order_.reset();
  callback_ = nullptr;
  end_ = came_later_ = JobEnd::kOpen;
  ended_early_ = ready_ = done_ = false;
  taken_ = false;
  outcome_.reset();
}

// Elsewhere the pool's lock may be held by a thread that is not there.
void JobState::drop_reference() {
  if (!pool_.mark().here()) return;
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.give_back(this);
}

bool JobState::claim(JobEnd end) {
  JobEnd open = JobEnd::kOpen;
  return end_.compare_exchange_strong(open, end, std::memory_order_acq_rel);
}

void JobState::cancel() {
  if (pool_.mark().here()) end_early(JobEnd::kCancel);
}

void JobState::pass_deadline() { end_early(JobEnd::kClock); }

TaskError JobState::error_of(TaskFailure failure, Error error) const {
  TaskError failed;
  failed.failure = failure;
  failed.error = std::move(error);
  failed.task = id_;
  failed.sequence = sequence_;
  return failed;
}

TaskOutcome JobState::early_outcome(JobEnd by) const {
  const bool cancelled = by == JobEnd::kCancel;
  return TaskOutcome(error_of(
      cancelled ? TaskFailure::kCancelled : TaskFailure::kDeadline, error_or_no_memory([&] {
        return Error{ErrorCode::kUnavailable,
                     cancelled ? fmt::format("task {} was cancelled", id_)
                               : fmt::format("task {}: its deadline passed before it was "
                                             "done",
                                             id_)};
      })));
}

void JobState::end_early(JobEnd by) {
  if (claim(by)) {
    // From here on the packet is dropped wherever it is met, without a callback.
    ended_early_.store(true, std::memory_order_release);
    if (pool_.owner_ != nullptr) pool_.owner_->job_ended();
    return settle(early_outcome(by), false);
  }
  if (done()) return;
  came_later_.store(by);
  if (ready_.load()) overrule(by);
}

// Its packet has ended it. Where an earlier task holds it back no callback was called.
bool JobState::overrule(JobEnd by) {
  const std::shared_ptr<JobOrder> order = order_;
  if (!order->take_held_back(*this)) return false;
  end_.store(by, std::memory_order_release);
  const bool good = [this] {
    const std::lock_guard lock(mutex_);
    return outcome_->ok();
  }();
  if (pool_.owner_ != nullptr) pool_.owner_->job_overruled(by, good);
  settle(early_outcome(by), false);
  return true;
}

void JobState::settle(TaskOutcome&& outcome, bool in_turn) {
  std::optional<TaskOutcome> other(std::move(outcome));
  {
    const std::lock_guard lock(mutex_);
    outcome_.swap(other);
  }
  // The stream may complete this job, and its last reference go, before the call returns.
  const std::shared_ptr<JobOrder> order = order_;
  if (in_turn) {
    ready_.store(true);
    const JobEnd by = came_later_.load();
    if (by != JobEnd::kOpen && overrule(by)) return;
  }
  order->settled(*this, in_turn);
}

void JobState::leave_room() {
  if (keeps_room_.fetch_sub(1, std::memory_order_acq_rel) == 1) pool_.room().give_back();
}

// The callback has the outcome. What it throws is the outcome that is left for wait().
void JobState::call_back() {
  TaskOutcome outcome = [&] {
    const std::lock_guard lock(mutex_);
    taken_ = true;
    return std::move(*outcome_);
  }();
  // A callback that cancels a job of another stream may be calling that one's callback here.
  const JobPool* const before = std::exchange(calling_back_for, &pool_);
  const Status called =
      call_application("the task's callback", [&] { callback_(std::move(outcome)); });
  callback_ = nullptr;  // what it holds may go now; the last handle of a pipeline, say
  calling_back_for = before;
  if (called.ok()) return;
  pool_.note_thrown(called.error());
  Error error = error_or_no_memory([&] { return called.error(); });
  const std::lock_guard lock(mutex_);
  outcome_ = TaskOutcome(error_of(TaskFailure::kError, std::move(error)));
  taken_ = false;
}

void JobState::complete() {
  leave_room();  // before the caller hears of it
  if (callback_) call_back();
  {
    const std::lock_guard lock(mutex_);
    done_.store(true, std::memory_order_release);
    if (waiting_ > 0) changed_.notify_all();
    for (JobListener* listener : listeners_) listener->notify();
    listeners_.clear();
  }
  pool_.completed();
}

bool JobState::is_over() const { return done() || !pool_.mark().here(); }

std::optional<TaskOutcome> JobState::wait(std::chrono::nanoseconds patience) {
  if (const Status process = pool_.mark().check("task's pipeline"); !process.ok()) {
    return TaskOutcome(error_of(TaskFailure::kError, process.error()));
  }
  std::unique_lock lock(mutex_);
  ++waiting_;
  const bool finished = wait_on(changed_, lock, patience, [this] { return done(); });
  --waiting_;
  if (!finished) return std::nullopt;
  if (taken_) {
    return TaskOutcome(error_of(TaskFailure::kError,
                                {ErrorCode::kInvalidArgument,
                                 fmt::format("the outcome of task {} was taken already", id_)}));
  }
  taken_ = true;
  return std::move(outcome_);
}

bool JobState::listen(JobListener* listener) {
  if (is_over()) return false;
  const std::lock_guard lock(mutex_);
  if (done()) return false;
  listeners_.push_back(listener);
  return true;
}

void JobState::forget(JobListener* listener) {
  const std::lock_guard lock(mutex_);
  std::erase(listeners_, listener);
}

std::unique_ptr<JobPool, JobPool::LetGo> JobPool::make(std::size_t jobs_max, JobOwner* owner) {
  return std::unique_ptr<JobPool, LetGo>(new JobPool(jobs_max, owner));
}

void JobPool::completed() {
  if (incomplete_.fetch_sub(1, std::memory_order_acq_rel) == 1) incomplete_.notify_all();
}

void JobPool::wait_until_complete() {
  for (std::size_t count = incomplete_; count != 0; count = incomplete_) incomplete_.wait(count);
}

JobReference JobPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    // So that give_back() takes no memory.
    if (made_ >= free_.capacity()) free_.reserve(std::min(2 * made_ + 16, room_.places()));
    auto* const state = new JobState(*this);  // give_back() takes it into its own again
    ++made_;
    return JobReference(state);
  }
  JobState* const state = free_.back().release();
  free_.pop_back();
  return JobReference(state);
}

void JobPool::give_back(JobState* state) {
  state->clear();
  std::unique_ptr<JobState> own(state);  // one too many goes without the lock held
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    if (free_.size() < room_.places()) {
      free_.push_back(std::move(own));
    } else {
      --made_;
    }
    last = !owned_ && free_.size() == made_;
  }
  if (last) delete this;
}

void JobPool::let_go() {
  bool last = false;
  {
    const std::lock_guard lock(mutex_);
    owned_ = false;
    last = free_.size() == made_;
  }
  if (last) delete this;
}

void JobPool::note_thrown(const Error& error) {
  thrown_.fetch_add(1, std::memory_order_relaxed);
  Error last = error_or_no_memory([&] { return error; });
  const std::lock_guard lock(mutex_);
  last_thrown_ = std::move(last.message);
}

std::string JobPool::last_thrown() const {
  const std::lock_guard lock(mutex_);
  return last_thrown_;
}

std::size_t JobPool::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

}  // namespace tessera::runtime
