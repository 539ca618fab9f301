#include "host/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/check.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

namespace tessera::host {
namespace {

constexpr std::chrono::microseconds kWatch{1000};  // before a thread without work sleeps
// Before it lets others run: longer than most pieces take. Who yields to another program on a busy processor is
// back with the next tick of the system's clock, milliseconds later.
constexpr std::chrono::microseconds kStay{100};
constexpr int kLooks = 64;  // between two looks at the clock

std::uint32_t generation_of(std::uint64_t ticket) {
  return static_cast<std::uint32_t>(ticket >> 32);
}
std::uint32_t left_of(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

// Looks at `value` until it is no longer `old`, or for a while: for `stay` without rest, then letting
// others run (one of them may be the thread that is waited for).
template <typename T>
bool changes_soon(const std::atomic<T>& value, T old, std::chrono::microseconds stay) {
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::steady_clock::duration waited{};
  do {
    for (int look = 0; look < kLooks; ++look) {
      if (value.load(std::memory_order_acquire) != old) return true;
      relax();
    }
    if (waited >= stay) std::this_thread::yield();
    waited = std::chrono::steady_clock::now() - begin;
  } while (waited < kWatch);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads) : stay_(kStay) {
  if (threads <= 0) threads = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  try {
    begin_workers(threads);
  } catch (...) {
    end_workers();
    throw;
  }
}

void ThreadPool::begin_workers(int threads) {
#if defined(__linux__)
  CPU_ZERO(&allowed_);
  (void)pthread_getaffinity_np(pthread_self(), sizeof allowed_, &allowed_);
  // Who has no processor of its own makes way for those it waits for.
  if (threads > CPU_COUNT(&allowed_)) stay_ = {};
#endif
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  // Where no more are to be had, the threads that there are do the work of all.
  for (int i = 1; i < threads && begin_worker(i); ++i) {
  }
}

bool ThreadPool::begin_worker(int index) {
  try {
    workers_.emplace_back([this, index] { worker_loop(index); });
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

ThreadPool::~ThreadPool() { end_workers(); }

void ThreadPool::end_workers() {
  stop_.store(true, std::memory_order_relaxed);
  ticket_.fetch_add(std::uint64_t{1} << 32, std::memory_order_release);
  ticket_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t pieces, const Work& work) {
  if (pieces <= 1 || workers_.empty()) {
    for (std::int64_t piece = 0; piece < pieces; ++piece) work(piece, 0);
    return;
  }
  TESSERA_CHECK(pieces < UINT32_MAX, "{} pieces", pieces);
  work_.store(&work, std::memory_order_relaxed);
  pieces_.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
  unfinished_.store(static_cast<std::uint32_t>(pieces), std::memory_order_relaxed);
  if (cpu_left_ == kNoCpu || sleeping_.load(std::memory_order_relaxed) > 0) leave_cpu_to_caller();
  const std::uint32_t generation = generation_of(ticket_.load(std::memory_order_relaxed)) + 1;
  ticket_.store((std::uint64_t{generation} << 32) | static_cast<std::uint64_t>(pieces),
                std::memory_order_release);
  ticket_.notify_all();
  take_pieces(generation, 0);
  // A worker that has not woken up yet is not waited for: it will find nothing to take.
  for (;;) {
    const std::uint32_t left = unfinished_.load(std::memory_order_acquire);
    if (left == 0) break;
    if (!changes_soon(unfinished_, left, stay_)) unfinished_.wait(left, std::memory_order_acquire);
  }
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

// A system may wake a thread on the processor of the one that wakes it though another one is idle: Linux in a
// virtual machine does, since it takes processors that the host has put aside for busy ones. Both would
// then share one until the system balances its load, some 10 ms later.
void ThreadPool::leave_cpu_to_caller() {
#if defined(__linux__)
  const int cpu = sched_getcpu();
  if (cpu < 0 || cpu == cpu_left_) return;
  cpu_left_ = cpu;
  for (std::thread& worker : workers_) {
    cpu_set_t others = allowed_;
    CPU_CLR(static_cast<std::size_t>(cpu), &others);
    if (CPU_COUNT(&others) < static_cast<int>(workers_.size())) return;
    // What the system refuses costs time only.
    (void)pthread_setaffinity_np(worker.native_handle(), sizeof others, &others);
  }
#endif
}

void ThreadPool::for_ranges(
    std::int64_t count,
    const std::function<void(int thread, std::int64_t first, std::int64_t last)>& work) {
  const std::int64_t wanted = workers_.empty() ? 1 : std::min<std::int64_t>(count, 4 * threads());
  run(wanted, [&](std::int64_t piece, int thread) {
    work(thread, count * piece / wanted, count * (piece + 1) / wanted);
  });
}

// As long as a piece of a run is left, nothing of the run changes but how many are left. So what
// was read before a piece was taken belongs to that run.
void ThreadPool::take_pieces(std::uint32_t generation, int thread) {
  std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (generation_of(ticket) == generation && left_of(ticket) > 0) {
    const Work* const work = work_.load(std::memory_order_relaxed);
    const std::uint32_t piece = pieces_.load(std::memory_order_relaxed) - left_of(ticket);
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    try {
      (*work)(piece, thread);
    } catch (...) {
      const std::lock_guard lock(thrown_mutex_);
      if (thrown_ == nullptr) thrown_ = std::current_exception();
    }
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    ticket = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::worker_loop(int thread) {
  std::uint32_t generation = 0;
  for (;;) {
    std::uint64_t ticket = ticket_.load(std::memory_order_acquire);
    while (generation_of(ticket) == generation) {
      if (!changes_soon(ticket_, ticket, stay_)) {
        sleeping_.fetch_add(1, std::memory_order_relaxed);
        ticket_.wait(ticket, std::memory_order_acquire);
        sleeping_.fetch_sub(1, std::memory_order_relaxed);
      }
      ticket = ticket_.load(std::memory_order_acquire);
    }
    if (stop_.load(std::memory_order_relaxed)) return;
    generation = generation_of(ticket);
    take_pieces(generation, thread);
  }
}

}  // namespace tessera::host
