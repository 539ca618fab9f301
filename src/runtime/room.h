// The bound on jobs in flight: a job takes its place when it is submitted and gives it back when it
// is complete and its packet has left the pipeline, whichever comes last.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>

namespace tessera::runtime {

class Room {
 public:
  explicit Room(std::size_t places) : places_(places) {}

  std::size_t places() const { return places_; }
  std::size_t taken() const { return taken_.load(); }
  // False: none is free.
  bool try_take();
  // Waits for one.
  void take();
  void give_back();
  // Until one is free; false: none is after `patience`.
  bool wait(std::chrono::nanoseconds patience);

 private:
  const std::size_t places_;
  std::atomic<std::size_t> taken_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::atomic<int> waiting_{0};
};

}  // namespace tessera::runtime
