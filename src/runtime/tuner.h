// Balances the threads of a pipeline's stages while it runs (R12); balancer.h decides.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "base/result.h"
#include "runtime/balancer.h"

namespace tessera::runtime {

// What the tuner sees and changes. Called by the tuner's thread.
class Tunable {
 public:
  virtual ~Tunable() = default;
  // Totals since the start; `seconds` of a steady clock.
  virtual PeriodLoad totals() = 0;
  virtual void change(const ThreadChange& change) = 0;
};

class Tuner {
 public:
  explicit Tuner(Tunable& tunable) : tunable_(tunable) {}
  ~Tuner();
  // Balancing begins from the threads of now; when it ends they stay as they are. What the tuner
  // calls may call this too. The error is kUnavailable: the system has no thread for it.
  Status set_on(bool on);

 private:
  void run();
  void balance();  // until stopped
  bool told_to_stop(std::chrono::milliseconds patience);

  Tunable& tunable_;
  std::mutex switching_;  // one set_on() at a time; before mutex_
  std::mutex mutex_;      // of `stop_`; not held while something is called
  std::condition_variable stopped_;
  bool stop_ = true;
  std::thread thread_;  // joined by the next set_on() of another thread
};

// What happened between two totals; threads and kernels are those of `now`.
PeriodLoad period_between(const PeriodLoad& before, const PeriodLoad& now);

}  // namespace tessera::runtime
