// Ends tasks when their deadline passes, wherever they are: behind a device that hangs, say; and
// wakes those who want to look again at what they expected.
#pragma once

#include <condition_variable>
#include <mutex>
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
  // Rings once at `time`, or earlier if it is set already. False: it will not, since the system has
  // no thread for it now, or after stop().
  bool set_alarm(Alarm& alarm, pipeline::Nanoseconds time);
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
  void prune();
  void start();
  pipeline::Nanoseconds next() const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> heap_;       // the earliest first
  std::vector<SetAlarm> alarms_;  // few: one of each execute stage
  std::size_t prune_at_ = 64;
  std::size_t expected_ = 0;  // calls of watch() that were prepared
  bool stop_ = false;
  std::thread thread_;  // begins with the first deadline
};

}  // namespace tessera::runtime
