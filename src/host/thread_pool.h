// A few threads that share out numbered pieces of work. The caller works along; pieces are taken in
// order, and which thread takes which must not matter to the result.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera::host {

class ThreadPool {
 public:
  // `threads` in all, the caller included; 0 = one a core.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }
  // Calls work(piece, thread) for every piece of [0, pieces), thread in [0, threads()); returns
  // when all are done. Not reentrant.
  using Work = std::function<void(std::int64_t piece, int thread)>;
  void run(std::int64_t pieces, const Work& work);
  // Cuts [0, count) into contiguous ranges, a few a thread, and calls work(thread, first, last).
  void for_ranges(
      std::int64_t count,
      const std::function<void(int thread, std::int64_t first, std::int64_t last)>& work);

 private:
  void worker_loop(int thread);
  void take_pieces(std::unique_lock<std::mutex>& lock, int thread);

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const Work* work_ = nullptr;  // guarded by mutex_, as all below
  std::int64_t next_ = 0;
  std::int64_t pieces_ = 0;
  std::int64_t unfinished_ = 0;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace tessera::host
