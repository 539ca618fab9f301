// What is behind a Stream: when its jobs become complete, which the caller sees.
//
//   settled with what its packet brought   in the order of submission, or at once where the stream
//                                          has the order of completion
//   cancelled, or late                     at once, whatever is open before it
//
// Callbacks come one at a time: a job with one that is to complete at once does so as soon as the
// callback that runs has returned. Settling a job completes those that it held up, too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/job.h"
#include "runtime/stream_states.h"

namespace tessera::runtime {

class StreamState : public JobOrder {
 public:
  StreamState(std::uint32_t id, const StreamOptions& options);

  std::uint32_t id() const { return id_; }
  int priority() const { return priority_; }
  // Gives the job its place in the order, before its packet enters the pipeline.
  void open(JobReference job, std::uint64_t id, std::shared_ptr<StreamState> self,
            std::function<void(TaskOutcome)> callback);
  void settled(JobState& job, bool in_turn) override;
  bool take_held_back(JobState& job) override;
  void wait_until_done();

  // Held while a task takes its states and its place on their blocks.
  std::mutex& states_mutex() { return states_mutex_; }
  StreamStates& states() { return states_; }

 private:
  static constexpr std::size_t kFirstRing = 64;
  JobReference& place(std::uint64_t sequence) { return ring_[sequence % ring_.size()]; }
  // With the lock held: the place where the job waits for its turn; null: nowhere.
  JobReference* place_of(const JobState& job);
  void deliver();
  void complete_at_once(JobState& job);
  // With the lock held: the next that can be completed; null: none.
  JobReference next();
  void completed();

  const std::uint32_t id_;
  const bool ordered_;
  const int priority_;
  std::mutex mutex_;
  std::condition_variable done_;
  // By sequence; null: completed out of turn. Empty where the stream is not ordered.
  std::vector<JobReference> ring_;
  std::uint64_t first_ = 0, next_ = 0;  // [first_, next_) are in the ring
  // Out of turn, to be called back: the first, with the others behind it, and the last.
  JobReference at_once_;
  JobState* last_at_once_ = nullptr;
  std::size_t open_ = 0;  // not complete
  bool delivering_ = false;
  std::mutex states_mutex_;
  StreamStates states_;
};

}  // namespace tessera::runtime
