// The bounded queue in which boxes meet.
//
//   producer ─push(now)─► [ . . . ] ─pop(now)─► consumer
//
// What is pushed in one cycle is seen in the next, and room that a pop makes likewise, so the order
// in which boxes are stepped within a cycle cannot change a result. Storage is allocated once.
#pragma once

#include <cstddef>
#include <vector>

#include "base/check.h"
#include "base/quantity.h"

namespace tessera::engines {

// A ring of fixed capacity, without a clock.
template <typename T>
class Ring {
 public:
  explicit Ring(std::size_t capacity) : items_(capacity) {}

  bool empty() const { return size_ == 0; }
  bool full() const { return size_ == items_.size(); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return items_.size(); }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& back() { return items_[index(size_ - 1)]; }
  // Appends and returns the new last item, which holds what the slot held before.
  T& push() {
    TESSERA_CHECK(!full(), "ring of {} is full", items_.size());
    return items_[index(size_++)];
  }
  void push(const T& item) { push() = item; }
  void pop() {
    TESSERA_CHECK(!empty(), "ring is empty");
    first_ = first_ + 1 == items_.size() ? 0 : first_ + 1;
    --size_;
  }
  void clear() { first_ = size_ = 0; }

 private:
  std::size_t index(std::size_t i) const {
    const std::size_t at = first_ + i;
    return at >= items_.size() ? at - items_.size() : at;
  }

  std::vector<T> items_;
  std::size_t first_ = 0, size_ = 0;
};

template <typename T>
class Fifo {
 public:
  explicit Fifo(std::size_t capacity) : ring_(capacity) {}

  bool can_push(Cycles now) const {
    return ring_.size() + (popped_at_ == now ? popped_ : 0) < ring_.capacity();
  }
  void push(Cycles now, const T& item) {
    TESSERA_CHECK(can_push(now), "push into a full queue at cycle {}", now);
    ring_.push({item, now});
  }
  // Whether an item pushed in an earlier cycle is there.
  bool can_pop(Cycles now) const { return !ring_.empty() && ring_.front().pushed_at < now; }
  const T& front() const { return ring_.front().item; }
  // From when on can_pop() holds, of a queue that is not empty.
  Cycles front_visible_at() const { return ring_.front().pushed_at + 1; }
  T pop(Cycles now) {
    TESSERA_CHECK(can_pop(now), "pop from an empty queue at cycle {}", now);
    T item = ring_.front().item;
    ring_.pop();
    popped_ = popped_at_ == now ? popped_ + 1 : 1;
    popped_at_ = now;
    return item;
  }
  bool empty() const { return ring_.empty(); }
  std::size_t size() const { return ring_.size(); }
  // Room that is there, though perhaps seen only in the next cycle.
  bool has_room() const { return !ring_.full(); }
  void clear() {
    ring_.clear();
    popped_ = 0;
    popped_at_ = -1;
  }

 private:
  struct Entry {
    T item;
    Cycles pushed_at = 0;
  };
  Ring<Entry> ring_;
  std::size_t popped_ = 0;
  Cycles popped_at_ = -1;
};

}  // namespace tessera::engines
