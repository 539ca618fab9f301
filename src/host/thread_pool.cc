#include "host/thread_pool.h"

#include <algorithm>

namespace tessera::host {

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (int i = 1; i < threads; ++i) {
    workers_.emplace_back([this, i] { worker_loop(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t pieces, const Work& work) {
  if (pieces <= 1 || workers_.empty()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
    return;
  }
  std::unique_lock lock(mutex_);
  work_ = &work;
  next_ = 0;
  pieces_ = pieces;
  unfinished_ = pieces;
  wake_.notify_all();
  take_pieces(lock, 0);
  // A worker that has not woken up yet is not waited for: it will find nothing to take.
  done_.wait(lock, [this] { return unfinished_ == 0; });
  work_ = nullptr;
}

void ThreadPool::for_ranges(
    std::int64_t count,
    const std::function<void(int thread, std::int64_t first, std::int64_t last)>& work) {
  const std::int64_t wanted = workers_.empty() ? 1 : std::min<std::int64_t>(count, 4 * threads());
  run(wanted, [&](std::int64_t piece, int thread) {
    work(thread, count * piece / wanted, count * (piece + 1) / wanted);
  });
}

// `lock` holds the mutex, also afterwards. The work is there as long as a piece of it is
// unfinished.
void ThreadPool::take_pieces(std::unique_lock<std::mutex>& lock, int thread) {
  while (next_ < pieces_) {
    const std::int64_t piece = next_++;
    const Work& work = *work_;
    lock.unlock();
    work(piece, thread);
    lock.lock();
    if (--unfinished_ == 0) done_.notify_one();
  }
}

void ThreadPool::worker_loop(int thread) {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || next_ < pieces_; });
    if (stop_) return;
    take_pieces(lock, thread);
  }
}

}  // namespace tessera::host
