// Ends tasks when their deadline passes, wherever they are: behind a device that hangs, say; and
// wakes those that want to check their expectation again.
//
//   thread 0   watches ──────► ends a task, whose callback takes long ──────► waits for its turn
//   thread 1   waits ────────► watches ─────────────────────────────────────►
//
// One thread watches the time at a time. Before it ends a task, which may call the application, the
// next one takes over; where all others are at callbacks there is one more.
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "runtime/job.h"

namespace tessera::runtime {

class DeadlineClock {
 public:
  DeadlineClock() = default;
  ~DeadlineClock();

  // Before each watch(), which then cannot fail. The error: the system has no thread for the clock.
  Status prepare();
  void watch(JobReference job, pipeline::Nanoseconds deadline);

  class Alarm {
   public:
    virtual ~Alarm() = default;
    virtual void ring() = 0;  // by the clock's thread; it may set the next one
  };
  // Rings once: at `time`, or when it was set to already if that is earlier. Says when; nothing: it
  // will not, since the system has no thread for it now, or after stop().
  std::optional<pipeline::Nanoseconds> set_alarm(Alarm& alarm, pipeline::Nanoseconds time);
  // Rings no more, and ends no more tasks.
  void stop();

 private:
  struct Entry {
    pipeline::Nanoseconds deadline;
    JobReference job;
  };
  struct SetAlarm {
    pipeline::Nanoseconds time;
    Alarm* alarm;
  };
  void run();
  // With the lock held.
  void prune(std::vector<Entry>& over);
  void start();
  void add_thread();
  void hand_over_the_watch();
  void end_first_task(std::unique_lock<std::mutex>& lock);
  void ring_alarm(pipeline::Nanoseconds due, std::unique_lock<std::mutex>& lock);
  pipeline::Nanoseconds next() const;

  std::mutex mutex_;
  std::condition_variable changed_;  // for the one that watches
  std::condition_variable turn_;     // for those that wait for it
  bool watched_ = false;
  int waiting_ = 0;               // threads, for their turn to watch
  std::vector<Entry> heap_;       // the earliest first
  std::vector<SetAlarm> alarms_;  // few: one of each execute stage
  std::size_t prune_at_ = 64;
  std::size_t expected_ = 0;  // calls of watch() that were prepared
  bool stop_ = false;
  std::vector<std::thread> threads_;  // the first begins with the first deadline
};

}  // namespace tessera::runtime
