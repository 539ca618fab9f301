// Ends tasks whose deadline passes while nobody looks at them: behind a device that hangs, say. The
// packet is dropped where it is met next.
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

 private:
  struct Entry {
    pipeline::Nanoseconds deadline;
    JobReference job;
  };
  void run();
  void prune();  // with the lock held

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> heap_;  // the earliest first
  std::size_t prune_at_ = 64;
  std::size_t expected_ = 0;  // calls of watch() that were prepared
  bool stop_ = false;
  std::thread thread_;  // begins with the first deadline
};

}  // namespace tessera::runtime
