// What is behind a Job: the state of one task, from submit to its outcome.
//
//   submit ─► [open] ── packet at its end ──┐
//                    ── cancel ─────────────┼─► settle(): the first wins ─► the stream's turn ─►
//                    complete() ── deadline ───────────┘
//
// A task is settled once, by whoever comes first: its packet, the caller's cancel, or the clock. It
// is complete (the caller sees it) when all earlier tasks of its stream are. States are counted and
// come from a pool, so that a runtime in motion allocates none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "pipeline/packet.h"
#include "tessera/runtime.h"

namespace tessera::runtime {

class JobPool;

// While one lives, this thread is one that a pipeline may wait for, and in code of the application:
// a callback, a stage, a log, what gives a payload back. That code may let go of the pipeline's
// last handle.
class ApplicationCall {
 public:
  ApplicationCall();
  ~ApplicationCall();
  ApplicationCall(const ApplicationCall&) = delete;
  ApplicationCall& operator=(const ApplicationCall&) = delete;
  static bool on_this_thread();

 private:
  const bool outer_;
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

  // For the one who submits: before anybody else knows the job.
  void open(std::uint64_t id, std::uint64_t sequence, std::shared_ptr<StreamState> stream,
            std::function<void(TaskOutcome)> callback);

  std::uint64_t id() const { return id_; }
  std::uint64_t sequence() const { return sequence_; }
  const std::atomic<bool>& cancelled() const { return cancelled_; }
  bool settled() const { return settled_.load(std::memory_order_acquire); }

  void cancel();
  // The first call decides; the others do nothing.
  void settle(TaskOutcome&& outcome);
  void settle_failed(TaskFailure failure, Error error);

  // For the stream, in its order.
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  void complete();

  // For the caller.
  std::optional<TaskOutcome> wait(std::chrono::nanoseconds patience);
  bool done() const { return done_.load(std::memory_order_acquire); }
  // False: it is done already, and nobody will notify.
  bool listen(JobListener* listener);
  void forget(JobListener* listener);

 private:
  friend class JobPool;
  void clear();

  JobPool& pool_;
  std::atomic<int> references_{0};

  std::uint64_t id_ = 0, sequence_ = 0;
  std::shared_ptr<StreamState> stream_;  // shared with the stream's handles
  std::function<void(TaskOutcome)> callback_;
  std::atomic<bool> cancelled_{false}, settled_{false}, ready_{false}, done_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  int waiting_ = 0;
  bool taken_ = false;
  std::optional<TaskOutcome> outcome_;
  std::vector<JobListener*> listeners_;
};

// A counted reference.
class JobReference {
 public:
  JobReference() = default;
  explicit JobReference(JobState* state) : state_(state) { state_->add_reference(); }
  JobReference(JobReference&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  JobReference& operator=(JobReference&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~JobReference() { reset(); }
  void reset() {
    if (JobState* const state = std::exchange(state_, nullptr)) state->drop_reference();
  }
  JobState* operator->() const { return state_; }
  JobState* get() const { return state_; }

 private:
  JobState* state_ = nullptr;
};

// Lives until its owner has let go of it and all its jobs are back.
class JobPool {
 public:
  struct LetGo {
    void operator()(JobPool* pool) const { pool->let_go(); }
  };
  static std::unique_ptr<JobPool, LetGo> make();

  JobReference take();
  std::size_t made() const;

 private:
  friend class JobState;
  JobPool() = default;
  void give_back(JobState* state);
  void let_go();

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<JobState>> all_;
  std::vector<JobState*> free_;
  bool owned_ = true;
};

}  // namespace tessera::runtime
