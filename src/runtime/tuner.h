// Balances the threads of a pipeline's stages while it runs (R12); balancer.h decides.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

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
  ~Tuner() { set_on(false); }
  // Balancing begins from the threads of now; when it ends they stay as they are.
  void set_on(bool on);

 private:
  void run();

  Tunable& tunable_;
  std::mutex switching_;  // one set_on() at a time
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

// What happened between two totals; threads and kernels are those of `now`.
PeriodLoad period_between(const PeriodLoad& before, const PeriodLoad& now);

}  // namespace tessera::runtime
