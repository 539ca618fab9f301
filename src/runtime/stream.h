// What is behind a Stream: the order of its tasks. A job becomes complete when it is settled and
// all jobs before it are; whoever settles the one that was waited for completes those behind it
// too.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/job.h"
#include "tessera/memory.h"

namespace tessera::runtime {

class ModelState;

// What the tasks of a stream hand on: of each state two blocks, one is read and the other written,
// in turn.
class StreamStates {
 public:
  struct Pair {
    std::size_t input = 0, output = 0;
    std::array<Block, 2> blocks;
  };
  StreamStates() = default;
  explicit StreamStates(std::vector<Pair> pairs) : pairs_(std::move(pairs)) {}
  // Adds the inputs that are states, and says where the outputs go that are states.
  Status add_to(NetworkTask& task, const ModelState* last) const;
  void turn() { ++turn_; }

 private:
  std::vector<Pair> pairs_;  // by input
  std::size_t turn_ = 0;
};

class StreamState {
 public:
  explicit StreamState(std::uint32_t id) : id_(id), ring_(kFirstRing) {}

  std::uint32_t id() const { return id_; }
  // Gives the job its place in the order, before its packet enters the pipeline.
  void open(JobReference job, std::uint64_t id, std::shared_ptr<StreamState> self,
            std::function<void(TaskOutcome)> callback);
  // Completes what can be completed now.
  void deliver();
  void wait_until_done();

  // Held while a task takes its states and its place on their blocks.
  std::mutex& states_mutex() { return states_mutex_; }
  StreamStates& states() { return states_; }

 private:
  static constexpr std::size_t kFirstRing = 64;
  JobReference& place(std::uint64_t sequence) { return ring_[sequence % ring_.size()]; }

  const std::uint32_t id_;
  std::mutex mutex_;
  std::condition_variable done_;
  std::vector<JobReference> ring_;      // by sequence
  std::uint64_t first_ = 0, next_ = 0;  // [first_, next_) are not complete
  bool delivering_ = false;
  std::mutex states_mutex_;
  StreamStates states_;
};

}  // namespace tessera::runtime
