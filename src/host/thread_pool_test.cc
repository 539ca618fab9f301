#include "host/thread_pool.h"

#include <gtest/gtest.h>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif

#include <atomic>
#include <new>
#include <thread>
#include <vector>

namespace tessera::host {
namespace {

TEST(ThreadPool, EveryPieceRunsOnceForEveryNumberOfThreads) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (int round = 0; round < 200; ++round) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(round % 17));
      std::atomic<bool> known = true;
      pool.run(static_cast<std::int64_t>(runs.size()), [&](std::int64_t piece, int thread) {
        if (thread < 0 || thread >= threads) known = false;
        ++runs[static_cast<std::size_t>(piece)];
      });
      EXPECT_TRUE(known);
      for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

#if defined(__linux__)
TEST(ThreadPool, WorkersAreKeptOffTheProcessorOfTheCaller) {
  cpu_set_t all;
  ASSERT_EQ(pthread_getaffinity_np(pthread_self(), sizeof all, &all), 0);
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "one processor";
  std::size_t first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  std::thread([&] {
    ThreadPool pool(2);
    cpu_set_t one, seen;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    std::atomic<int> there = 0;
    pool.run(2, [&](std::int64_t, int thread) {
      // Each thread has one of the two pieces.
      ++there;
      while (there < 2) std::this_thread::yield();
      if (thread == 1) pthread_getaffinity_np(pthread_self(), sizeof seen, &seen);
    });
    EXPECT_FALSE(CPU_ISSET(first, &seen));
    EXPECT_EQ(CPU_COUNT(&seen), CPU_COUNT(&all) - 1);
  }).join();
}
#endif

TEST(ThreadPool, RangesCoverTheCountWithoutOverlap) {
  ThreadPool pool(3);
  for (std::int64_t count = 0; count < 50; ++count) {
    std::vector<std::atomic<int>> covered(static_cast<std::size_t>(count));
    pool.for_ranges(count, [&](int, std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) ++covered[static_cast<std::size_t>(i)];
    });
    for (const std::atomic<int>& times : covered) EXPECT_EQ(times, 1);
  }
}

TEST(ThreadPool, WhatAPieceThrowsIsThrownWhenAllAreDone) {
  ThreadPool pool(3);
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> done = 0;
    const auto run = [&] {
      pool.run(20, [&](std::int64_t piece, int) {
        ++done;
        if (piece % 7 == round % 7) throw std::bad_alloc();
      });
    };
    EXPECT_THROW(run(), std::bad_alloc);
    EXPECT_EQ(done, 20);
    pool.run(20, [&](std::int64_t, int) { ++done; });
    EXPECT_EQ(done, 40);
  }
}

TEST(ThreadPool, ZeroMeansOneThreadACore) {
  ThreadPool pool(0);
  EXPECT_GE(pool.threads(), 1);
}

}  // namespace
}  // namespace tessera::host
