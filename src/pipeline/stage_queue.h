// The hand-over between two stages: a bounded queue. push() waits while it is full, pop()
// while it is empty.
//
//   stage before ─ push(): waits while `capacity` of its packets are inside ─┐  high  [ 9 7 ]
//                                                                            ├─► ... [ 8 6 5 ] ─►
//   outside ────── enter(): never waits, the rings grow ─────────────────────┘  low   [ 4 ]   pop()
//
// The two do not count against each other: packets that enter here, because they pass the stages
// before by, cannot hold up those that come through them, nor the other way round.
//
// Packets come out by priority, strictly, and in order within one. A plain ring for each priority,
// all behind one lock. Packets are moved in and out several at a time, and only waiting threads
// are woken, so that a busy pipeline takes one short lock for many packets.
//
// The threads of a stage that keeps its packets (keeper.h) do not wait for packets but to be poked:
// a packet that comes in is one reason for it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "pipeline/keeper.h"
#include "pipeline/packet.h"

namespace tessera::pipeline {

class StageQueue {
 public:
  // Called when there is room again. Bit s of the stages: stage s asked, and asks again; with
  // the lock held.
  class RoomListener {
   public:
    virtual ~RoomListener() = default;
    virtual void room(std::uint32_t stages) = 0;
  };

  explicit StageQueue(std::size_t capacity, bool of_keeper = false);
  // Before anything else; outlives the packets.
  void set_listener(RoomListener& listener) { listener_ = &listener; }

  // Moves all packets in, in order, waiting for room; those that came in are null afterwards.
  // False: the queue was closed before all were in.
  bool push(std::span<PacketPtr> packets);
  // False: no room (or closed); the packet stays with the caller.
  bool try_push(PacketPtr& packet);
  // The same for a packet of that stage, and the listener is called when there is room.
  bool try_push(PacketPtr& packet, std::size_t stage);
  // The caller bounds how many are inside. The queue is open. `quietly`: no thread is woken for it.
  void enter(PacketPtr&& packet, bool quietly = false);
  // Where there is no memory for a ring, push(), try_push() and enter() throw, and what is not
  // inside stays with the caller.

  // Waits for a packet, then takes as many as there are and `out` holds. 0: the queue is closed and
  // empty, or `leave` was set (see wake()).
  std::size_t pop(std::span<PacketPtr> out, const std::atomic<bool>& leave);
  std::size_t try_pop(std::span<PacketPtr> out);
  PacketPtr take(StagePort::End end);  // null: empty
  PacketPtr take_handed();             // the first of the stage before; null: there is none
  // Moves those out of which `wanted` says so; throws before it moves any.
  void take_if(const std::function<bool(const Packet&)>& wanted, std::vector<PacketPtr>& out);

  // Wakes one that waits to be poked; the next that comes, if none does now.
  void poke();
  // False: the queue is closed, or `leave` was set.
  bool wait_for_poke(const std::atomic<bool>& leave);

  // Lets waiting takers look at their `leave` flag.
  void wake();
  // No packet comes in any more; those inside can be taken.
  void close();

  std::size_t size() const { return size_.load(std::memory_order_relaxed); }
  // Of those inside; any, if there are none.
  int highest_priority() const { return highest_.load(std::memory_order_relaxed); }
  std::size_t capacity() const { return capacity_; }
  // For packets of the stage before.
  std::size_t room() const { return capacity_ - handed_.load(std::memory_order_relaxed); }

 private:
  // Of one priority, first in front.
  class Ring {
   public:
    bool empty() const { return count_ == 0; }
    void reserve(std::size_t places) { places_.resize(places); }
    void make_room(std::size_t count);
    void put(PacketPtr packet);  // into room that was made
    PacketPtr take_first();
    PacketPtr take_last();
    PacketPtr take_first_handed();  // null: there is none
    void take_if(const std::function<bool(const Packet&)>& wanted, std::vector<PacketPtr>& out);

   private:
    PacketPtr& place(std::size_t index) { return places_[(first_ + index) % places_.size()]; }
    std::vector<PacketPtr> places_;
    std::size_t first_ = 0, count_ = 0;
  };
  static constexpr std::size_t kRings = kPriorityMax - kPriorityMin + 1;

  // With the lock held.
  bool push_if_room(PacketPtr& packet);
  std::size_t take(std::span<PacketPtr> out);
  Ring& ring_of(const PacketPtr& packet);
  void put(PacketPtr packet);  // into room that was made
  void took(std::size_t count, std::size_t handed);
  void note_highest();
  void tell_of_packets(std::size_t count);
  void poke_locked();

  const std::size_t capacity_;
  const bool of_keeper_;
  mutable std::mutex mutex_;
  std::condition_variable room_, packets_;
  std::array<Ring, kRings> rings_;  // by priority, the lowest first
  // handed_: those of the stage before. Written with the lock.
  std::atomic<std::size_t> size_{0}, handed_{0};
  std::atomic<int> highest_{0};
  std::size_t waiting_for_room_ = 0, waiting_for_packets_ = 0, pokes_ = 0;
  bool closed_ = false;
  RoomListener* listener_ = nullptr;
  std::uint32_t asked_for_room_ = 0;  // bit s: by stage s
};

}  // namespace tessera::pipeline
