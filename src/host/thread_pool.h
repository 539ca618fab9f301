// A few threads that share out numbered pieces of work. The caller works along; pieces are taken in
// order, and which thread takes which must not matter to the result.
//
//   ticket = generation of the run | pieces left to take     one word: taking a piece subtracts 1
//
// A thread without work watches the ticket for a moment before it sleeps: the layers of a network
// follow each other faster than the system wakes a thread. On Linux threads that sleep are kept off the processor
// of the caller when they are woken, as long as there is one for each of them: the system may not see that others
// are idle.
#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::host {

class ThreadPool {
 public:
  // `threads` in all, the caller included; 0 = one per core. Fewer where the system has no more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls work(piece, thread) for every piece of [0, pieces), thread in [0, threads()); returns
  // when all are done. What one of them throws is thrown then, the first where there are several.
  // Not reentrant.
  using Work = std::function<void(std::int64_t piece, int thread)>;
  void run(std::int64_t pieces, const Work& work);
  // Cuts [0, count) into contiguous ranges, a few a thread, and calls work(thread, first, last).
  void for_ranges(
      std::int64_t count,
      const std::function<void(int thread, std::int64_t first, std::int64_t last)>& work);

 private:
  void worker_loop(int thread);
  void begin_workers(int threads);
  bool begin_worker(int index);  // false: there is no more to be had
  void end_workers();
  // Of workers that are about to be woken.
  void leave_cpu_to_caller();
  // Works on run `generation` until no piece of it is left to take.
  void take_pieces(std::uint32_t generation, int thread);

  std::atomic<std::uint64_t> ticket_{0};
  std::atomic<const Work*> work_{nullptr};  // of the run that the ticket names, as is pieces_
  std::atomic<std::uint32_t> pieces_{0};
  std::atomic<std::uint32_t> unfinished_{0};
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;  // by a piece of the run
  std::atomic<bool> stop_{false};
  std::chrono::microseconds stay_;  // how long a thread waits before it lets others run
  std::vector<std::thread> workers_;
  std::atomic<int> sleeping_{0};  // workers
  static constexpr int kNoCpu = -1;
  int cpu_left_ = kNoCpu;  // where workers may not run
#if defined(__linux__)
  cpu_set_t allowed_;  // where threads that the pool makes may run
#endif
};

}  // namespace tessera::host
