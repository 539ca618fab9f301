// A ring of events between one writing thread and one reading thread, without locks.
//
//   writer ─► [ . . e e e e . . ] ─► reader
//                 ▲       ▲
//               tail_    head_       counters that only grow; a slot is counter mod capacity
//
// A full ring counts what it drops and never waits. A ring outlives its writer: when the thread
// ends, the ring is free to be taken by another thread, with what it still holds.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "metrics/event.h"

namespace tessera::metrics {

class EventRing {
 public:
  // `capacity` is a power of two.
  explicit EventRing(std::uint64_t capacity)
      : capacity_(capacity), slots_(std::make_unique<Event[]>(capacity)) {}

  // The writer's side: one thread at a time, between try_take() and leave().
  bool try_take() { return !taken_.exchange(true, std::memory_order_acquire); }
  void leave() { taken_.store(false, std::memory_order_release); }

  void push(const Event& event) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    if (head - tail_seen_ == capacity_) {
      tail_seen_ = tail_.load(std::memory_order_acquire);
      if (head - tail_seen_ == capacity_) {
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    slots_[head & (capacity_ - 1)] = event;
    head_.store(head + 1, std::memory_order_release);
  }

  // The reader's side: appends all that is there and returns how many events that were.
  std::uint64_t drain(std::vector<Event>& out) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    for (std::uint64_t i = tail; i != head; ++i) out.push_back(slots_[i & (capacity_ - 1)]);
    tail_.store(head, std::memory_order_release);
    return head - tail;
  }

  // Events lost so far, by all its writers.
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  std::uint64_t capacity() const { return capacity_; }

 private:
  const std::uint64_t capacity_;
  const std::unique_ptr<Event[]> slots_;
  // What the writer writes, what the reader writes, and what changes hands: a cache line each.
  alignas(64) std::atomic<std::uint64_t> head_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::atomic<std::int64_t> dropped_ = 0;
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;
  alignas(64) std::atomic<bool> taken_ = false;
};

}  // namespace tessera::metrics
