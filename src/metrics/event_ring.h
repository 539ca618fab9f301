// A ring of events between one writing thread and one reading thread, without locks.
//
//   writer ─► [ . . e e e e . . ] ─► reader
//                 ▲       ▲
//               tail_    head_       counters that only grow; a slot is counter mod capacity
//
// A full ring counts what it drops and never waits. A ring outlives its writer: when the thread
// ends, the ring is free to be taken by another thread, with what it still holds. A free ring that
// holds nothing may do without its slots until it is taken again.
//
// Beside the events, which come when something is over, a ring says what its writer works on now.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "metrics/event.h"

namespace tessera::metrics {

class EventRing {
 public:
  // `capacity` is a power of two.
  explicit EventRing(std::uint64_t capacity) : capacity_(capacity) {}

  // The writer's side: one thread at a time, between try_take() and leave(). Calls of try_take()
  // and release_slots() come one after the other; leave() may come at any time. Throws bad_alloc
  // where there is no memory for the slots; the ring is free then.
  bool try_take() {
    if (taken_.exchange(true, std::memory_order_acquire)) return false;
    try {
      if (!slots_) slots_ = std::make_unique<Event[]>(capacity_);
    } catch (...) {
      taken_.store(false, std::memory_order_release);
      throw;
    }
    return true;
  }
  void leave() {
    end_work();
    taken_.store(false, std::memory_order_release);
  }
  bool free() const { return !taken_.load(std::memory_order_relaxed); }
  // Of those who call try_take() and release_slots().
  bool has_slots() const { return slots_ != nullptr; }
  // Gives up the slots of a ring that is free and empty; the reader does not drain meanwhile.
  void release_slots() {
    if (taken_.exchange(true, std::memory_order_acquire)) return;
    if (head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_relaxed)) {
      slots_.reset();
    }
    taken_.store(false, std::memory_order_release);
  }

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

  // Between the two the writer works for `source`; the events of that work are pushed before
  // end_work().
  void begin_work(SourceId source, std::int64_t begin_ns) {
    end_work();
    work_source_.store(source.index, std::memory_order_relaxed);
    work_begin_.store(begin_ns, std::memory_order_release);
  }
  void end_work() { work_begin_.store(kNoWork, std::memory_order_release); }

  struct Work {
    SourceId source;
    std::int64_t begin_ns = 0;
  };
  // What the writer works on; any thread may ask.
  std::optional<Work> work() const {
    const std::int64_t begin = work_begin_.load(std::memory_order_acquire);
    const Work work = {{work_source_.load(std::memory_order_acquire)}, begin};
    // Another work may have begun between the two.
    if (begin == kNoWork || work_begin_.load(std::memory_order_relaxed) != begin) return {};
    return work;
  }

  // The reader's side: gives all that is there to take(std::span<const Event>), where it lies and
  // piece by piece; what was taken is free again. Returns how many events that were.
  template <typename Take>
  std::uint64_t drain(const Take& take) {
    constexpr std::uint64_t kPiece = 512;
    const std::uint64_t head = head_.load(std::memory_order_acquire);
    const std::uint64_t first = tail_.load(std::memory_order_relaxed);
    for (std::uint64_t tail = first; tail != head;) {
      const std::uint64_t place = tail & (capacity_ - 1);
      const std::uint64_t count = std::min({head - tail, capacity_ - place, kPiece});
      take(std::span<const Event>(&slots_[place], count));
      tail += count;
      tail_.store(tail, std::memory_order_release);
    }
    return head - first;
  }

  // Events lost so far, by all its writers.
  std::int64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }
  std::uint64_t capacity() const { return capacity_; }

 private:
  static constexpr std::int64_t kNoWork = INT64_MIN;

  const std::uint64_t capacity_;
  std::unique_ptr<Event[]> slots_;  // null: the ring is unused and empty
  // What the writer writes, what the reader writes, and what changes hands: a cache line each.
  alignas(64) std::atomic<std::uint64_t> head_ = 0;
  std::uint64_t tail_seen_ = 0;
  std::atomic<std::int64_t> dropped_ = 0;
  std::atomic<std::int64_t> work_begin_ = kNoWork;
  std::atomic<std::uint16_t> work_source_ = 0;
  alignas(64) std::atomic<std::uint64_t> tail_ = 0;
  alignas(64) std::atomic<bool> taken_ = false;
};

}  // namespace tessera::metrics
