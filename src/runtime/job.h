// What is behind a Job: the state of one task, from submit to its outcome.
//
//   submit ─► [open] ── packet at its end ─┐
//                    ── cancel ────────────┼─► settle(): first wins ─► stream's turn ─► complete()
//                    ── deadline ──────────┘
//
// A task is settled once, by the first claim: its packet, the caller's cancel, or the
// clock. It is complete (the caller sees it) when its stream says so: with what its packet brings,
// in the stream's order; when it was cancelled or is late, at once. One whose result is held back
// by an earlier task of an ordered stream can still be cancelled, or be late: then the result goes.
// States are counted and come from a pool, so that a runtime in motion allocates none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/process_mark.h"
#include "pipeline/packet.h"
#include "runtime/room.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

class JobPool;
class JobState;

// A counted reference.
class JobReference {
 public:
  JobReference() = default;
  explicit JobReference(JobState* state);
  JobReference(JobReference&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  JobReference& operator=(JobReference&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~JobReference() { reset(); }
  void reset();
  JobState* operator->() const { return state_; }
  JobState* get() const { return state_; }

 private:
  JobState* state_ = nullptr;
};

// What decided how a task ended.
enum class JobEnd : std::uint8_t {
  kOpen,  // none yet
  kPacket,
  kCancel,
  kClock,  // its deadline passed
};

// Whose jobs they are.
class JobOwner {
 public:
  virtual ~JobOwner() = default;
  // The caller or the clock ended a job, and what its packet is in for need not be done. Called
  // before the job is settled, so that the owner is still there.
  virtual void job_ended() = 0;
  // The same of a job that its packet had ended before, with a result if `good`.
  virtual void job_overruled(JobEnd end, bool good) = 0;
};

// Where jobs have their place among others: a stream (stream.h).
class JobOrder {
 public:
  virtual ~JobOrder() = default;
  // The job has its outcome.
  virtual void settled(JobState& job, bool in_turn) = 0;
  // True: its packet has ended the job, an earlier one that is open holds it back, and now it waits
  // for its turn no more. Whoever calls has a reference to it, and settles it anew.
  virtual bool take_held_back(JobState& job) = 0;
};

// Waits for one of several jobs.
class JobListener {
 public:
  void notify();
  void wait(std::chrono::nanoseconds patience);  // until notified

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool notified_ = false;
};

class JobState {
 public:
  explicit JobState(JobPool& pool) : pool_(pool) {}

  void add_reference() { references_.fetch_add(1, std::memory_order_relaxed); }
  void drop_reference();

  // For the submitter: before any other thread has the job.
  void open(std::uint64_t id, std::uint64_t sequence, std::shared_ptr<JobOrder> order,
            std::function<void(TaskOutcome)> callback);

  std::uint64_t id() const { return id_; }
  std::uint64_t sequence() const { return sequence_; }
  const std::atomic<bool>& ended_early() const { return ended_early_; }
  JobEnd end() const { return end_.load(std::memory_order_acquire); }
  bool settled() const { return end() != JobEnd::kOpen; }

  // The first claim wins; its owner must settle.
  bool claim(JobEnd end);
  // `in_turn`: not before the earlier ones of an ordered stream.
  void settle(TaskOutcome&& outcome, bool in_turn);
  void cancel();
  void pass_deadline();
  // It needs no place in the pipeline any more.
  void packet_left() { leave_room(); }

  // For the stream.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  bool calls_back() const { return callback_ != nullptr; }
  JobReference& behind() { return behind_; }  // the next in the stream's list, if it is in it
  void complete();

  // Whose jobs' callback of the application this thread is in; null: in none.
  static const JobPool* in_callback_of();

  // For the caller.
  std::optional<TaskOutcome> wait(std::chrono::nanoseconds patience);
  // Done, or never to be: in a process that was forked off since.
  bool is_over() const;
  bool done() const { return done_.load(std::memory_order_acquire); }
  // False: it is done already, and there will be no notification.
  bool listen(JobListener* listener);
  void forget(JobListener* listener);

 private:
  friend class JobPool;
  void clear();
  // By the caller's cancel or the clock: the job, or the result that is held back.
  void end_early(JobEnd by);
  bool overrule(JobEnd by);
  TaskOutcome early_outcome(JobEnd by) const;
  TaskError error_of(TaskFailure failure, Error error) const;
  void call_back();
  void leave_room();

  JobPool& pool_;
  std::atomic<int> references_{0};

  std::uint64_t id_ = 0, sequence_ = 0;
  std::shared_ptr<JobOrder> order_;  // shared with the stream's handles
  std::function<void(TaskOutcome)> callback_;
  std::atomic<JobEnd> end_{JobEnd::kOpen};
  // What came when its packet had claimed it already; one of the two sees the other.
  std::atomic<JobEnd> came_later_{JobEnd::kOpen};
  std::atomic<bool> ended_early_{false}, ready_{false}, done_{false};
  std::atomic<int> keeps_room_{0};  // its packet, and itself
  JobReference behind_;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  int waiting_ = 0;
  bool taken_ = false;
  std::optional<TaskOutcome> outcome_;
  std::vector<JobListener*> listeners_;
};

inline JobReference::JobReference(JobState* state) : state_(state) { state_->add_reference(); }
inline void JobReference::reset() {
  if (JobState* const state = std::exchange(state_, nullptr)) state->drop_reference();
}

// Lives until its owner has released it and all its jobs are back. It keeps as many as can be in
// flight; more there are only while the application holds those that are done.
class JobPool {
 public:
  struct LetGo {
    void operator()(JobPool* pool) const { pool->let_go(); }
  };
  // The owner lives until all jobs that were taken are complete; null: none.
  static std::unique_ptr<JobPool, LetGo> make(std::size_t jobs_max, JobOwner* owner = nullptr);

  // For a job that has a place in the room.
  JobReference take();
  std::size_t made() const;
  Room& room() { return room_; }
  const ProcessMark& mark() const { return mark_; }
  // All jobs that were taken are complete.
  bool is_complete() const { return incomplete_.load(std::memory_order_acquire) == 0; }
  // Waits until all jobs that were taken are complete.
  void wait_until_complete();
  // What the application's callbacks and its tuning log threw.
  void note_thrown(const Error& error);
  std::int64_t thrown() const { return thrown_.load(std::memory_order_relaxed); }
  std::string last_thrown() const;

 private:
  friend class JobState;
  JobPool(std::size_t jobs_max, JobOwner* owner) : owner_(owner), room_(jobs_max) {}
  void opened() { incomplete_.fetch_add(1, std::memory_order_relaxed); }
  void completed();
  void give_back(JobState* state);
  void let_go();

  const ProcessMark mark_;
  JobOwner* const owner_;
  Room room_;
  std::atomic<std::size_t> incomplete_{0};
  std::atomic<std::int64_t> thrown_{0};
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<JobState>> free_;  // the others belong to their references
  std::size_t made_ = 0;                         // and not deleted
  bool owned_ = true;
  std::string last_thrown_;
};

}  // namespace tessera::runtime
