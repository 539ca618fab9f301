// The hand-over between two stages: a bounded queue. Who brings a packet while it is full waits,
// and so does who comes while it is empty.
//
//   stage before ─ push(): waits while `capacity` of its packets are inside ─┐
//                                                                            ├─► in order ─► pop()
//   outside ────── enter(): never waits, the ring grows ────────────────────┘
//
// The two do not count against each other: packets that enter here, because they pass the stages
// before by, cannot hold up those that come through them, nor the other way round.
//
// A plain ring behind one lock. Packets are moved in and out several at a time, and nobody is woken
// who does not wait, so that a busy pipeline takes one short lock for many packets.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <vector>

#include "pipeline/packet.h"

namespace tessera::pipeline {

class StageQueue {
 public:
  explicit StageQueue(std::size_t capacity);

  // Moves all packets in, in order, waiting for room; those that came in are null afterwards.
  // False: the queue was closed before all were in.
  bool push(std::span<PacketPtr> packets);
  // False: no room (or closed); the packet stays with the caller.
  bool try_push(PacketPtr& packet);
  // Whoever calls bounds how many are inside. The queue is open.
  void enter(PacketPtr&& packet);
  // Where there is no memory for the ring, push(), try_push() and enter() throw, and what is not
  // inside stays with the caller.

  // Waits for a packet, then takes as many as there are and `out` holds. 0: the queue is closed and
  // empty, or `leave` was set (see wake()).
  std::size_t pop(std::span<PacketPtr> out, const std::atomic<bool>& leave);
  std::size_t try_pop(std::span<PacketPtr> out);

  // Lets waiting takers look at their `leave` flag.
  void wake();
  // No packet comes in any more; those inside can be taken.
  void close();

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  std::size_t capacity() const { return capacity_; }
  // For packets of the stage before.
  std::size_t room() const { return capacity_ - handed_.load(std::memory_order_relaxed); }

 private:
  // With the lock held.
  std::size_t take(std::span<PacketPtr> out);
  void make_room(std::size_t count);
  void put(PacketPtr packet);  // into room that was made

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable room_, packets_;
  std::vector<PacketPtr> ring_;
  std::size_t first_ = 0;
  std::atomic<std::size_t> size_{0},
      handed_{0};  // those of the stage before; written with the lock
  std::size_t waiting_for_room_ = 0, waiting_for_packets_ = 0;
  bool closed_ = false;
};

}  // namespace tessera::pipeline
