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
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    pieces_ = pieces;
    next_ = 0;
    busy_ = static_cast<int>(workers_.size());
    ++round_;
  }
  wake_.notify_all();
  take_pieces(work, pieces, 0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return busy_ == 0; });
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

void ThreadPool::take_pieces(const Work& work, std::int64_t pieces, int thread) {
  for (;;) {
    std::int64_t piece = 0;
    {
      const std::lock_guard lock(mutex_);
      if (next_ >= pieces) return;
      piece = next_++;
    }
    work(piece, thread);
  }
}

void ThreadPool::worker_loop(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    const Work* work = nullptr;
    std::int64_t pieces = 0;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
      work = work_;
      pieces = pieces_;
    }
    take_pieces(*work, pieces, thread);
    {
      const std::lock_guard lock(mutex_);
      if (--busy_ == 0) done_.notify_one();
    }
  }
}

}  // namespace tessera::host
