// A stage: a function, the queue in front of it, and threads of its own that can become more or
// fewer while packets flow.
//
//   queue ─► worker 0 ─┐
//         ─► worker 1 ─┼─► run(batch) ─► where the packets go next (pipeline.cc)
//         ─► ...      ─┘
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "pipeline/keeper.h"
#include "pipeline/packet.h"
#include "pipeline/stage_queue.h"

namespace tessera::pipeline {

inline constexpr int kThreadsMax = 256;
inline constexpr std::size_t kBatchMax = 64;

// What a stage does. Several threads call it at once. What goes wrong with a packet is noted in the
// packet (Packet::fail), which then passes all further stages by. What it throws is the error of
// all packets of the batch.
class StageFunction {
 public:
  virtual ~StageFunction() = default;
  virtual void run(std::span<const PacketPtr> batch) = 0;
};

struct StageConfig {
  std::string name;
  int threads = 1;            // 1..kThreadsMax
  std::size_t capacity = 64;  // packets that wait in front of it
  std::size_t batch = 1;      // packets that a thread takes at a time, at most; <= kBatchMax
  // A thread takes no more at once than takes this long, by the stage's latest batches: quick tasks
  // share the cost of handing over, slow ones do not wait for each other. 0: as `batch` says.
  Nanoseconds grain = 0;
  // One of the two, shared with the creator of the pipeline.
  std::shared_ptr<StageFunction> function = {};
  std::shared_ptr<Keeper> keeper = {};
};

// Since the pipeline was made. Read while running: each figure by itself is right.
struct StageCounters {
  int threads = 0;
  std::size_t queued = 0, capacity = 0;
  std::int64_t packets = 0, batches = 0;
  // Of all threads together, up to now; of a keeper as many count as it has packets.
  Nanoseconds busy = 0;
  Nanoseconds thread_time = 0;  // that they were there; never less than `busy`
  int running = 0;              // threads that are in the function now
};

// A thread's time in the function, which others may ask for while it works there. Written by one
// thread.
class WorkTime {
 public:
  void begin(Nanoseconds at) { add(-at); }
  void end(Nanoseconds at) { add(at); }
  // Below zero while it works: then what is over plus the time of asking is what it worked.
  Nanoseconds value() const { return value_.load(std::memory_order_relaxed); }

 private:
  void add(Nanoseconds time) { value_.store(value() + time, std::memory_order_relaxed); }
  std::atomic<Nanoseconds> value_{0};  // less the beginning, while it works
};

class Stage {
 public:
  // The loop of one worker; returns when `leave` is set or there is no more work.
  using Loop = std::function<void(const std::atomic<bool>& leave)>;

  explicit Stage(StageConfig config);
  ~Stage();  // the loops have ended or will end

  // Starts the threads of the configuration. `wake` makes waiting workers look at their flag.
  Status start(Loop loop, std::function<void()> wake);
  // Takes effect at once for idle threads, after their batch for busy ones. Nothing is lost. The
  // error is kUnavailable if the system has no more threads; then they are as many as before.
  Status set_threads(int threads);
  // Waits until all loops have ended.
  void join();

  // Runs the function on what is in `batch` and counts it; returns when it was done.
  Nanoseconds run(std::span<const PacketPtr> batch, Nanoseconds begin);
  // The keeper has one packet more, or is done with one.
  void keep();
  void let_go();

  // Packets that a thread may take at once now.
  std::size_t batch() const;
  // A look at the whole queue for each of many tasks that are cancelled would take long: true once
  // for every sixteenth part of it.
  bool worth_sweeping();

  StageQueue& queue() { return queue_; }
  const StageConfig& config() const { return config_; }
  int threads() const { return threads_.load(std::memory_order_relaxed); }
  StageCounters counters() const;

 private:
  struct Worker {
    std::atomic<bool> leave{false};
    const Nanoseconds born = now();
    bool gone = false;  // this and the next with the lock held
    Nanoseconds gone_at = 0;
    WorkTime time;
    std::thread thread;
  };
  static thread_local Worker* worker_of_this_thread;
  // With the lock held.
  void reap();  // joins those that are gone
  Status add_worker();
  void count_kept(Nanoseconds now) const;  // what a keeper's threads were busy up to now

  const StageConfig config_;
  StageQueue queue_;
  Loop loop_;
  std::function<void()> wake_;

  mutable std::mutex mutex_;  // of the lists and of the counts of threads that left them
  std::list<std::unique_ptr<Worker>> workers_, leaving_;
  std::atomic<int> threads_{0}, running_{0};
  std::atomic<std::int64_t> packets_{0}, batches_{0};
  std::atomic<std::size_t> sweeps_asked_{0};
  std::atomic<Nanoseconds> lately_{0};  // that one packet takes; 0: not known yet
  Nanoseconds busy_before_ = 0, thread_time_before_ = 0;

  mutable std::mutex kept_mutex_;  // of what follows
  int kept_ = 0;                   // packets
  mutable Nanoseconds kept_busy_ = 0, kept_counted_ = 0;
};

}  // namespace tessera::pipeline
