#include "pipeline/stage_queue.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tessera::pipeline {

void StageQueue::Ring::make_room(std::size_t count) {
  if (count_ + count <= places_.size()) return;
  std::vector<PacketPtr> larger(std::max({std::size_t{8}, 2 * places_.size(), count_ + count}));
  for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(place(i));
  places_ = std::move(larger);
  first_ = 0;
}

void StageQueue::Ring::put(PacketPtr packet) { place(count_++) = std::move(packet); }

PacketPtr StageQueue::Ring::take_first() {
  PacketPtr packet = std::move(place(0));
  if (++first_ == places_.size()) first_ = 0;
  --count_;
  return packet;
}

PacketPtr StageQueue::Ring::take_last() { return std::move(place(--count_)); }

PacketPtr StageQueue::Ring::take_first_handed() {
  std::size_t i = 0;
  while (i < count_ && place(i)->from_outside) ++i;
  if (i == count_) return nullptr;
  PacketPtr packet = std::move(place(i));
  for (; i + 1 < count_; ++i) place(i) = std::move(place(i + 1));
  --count_;
  return packet;
}

void StageQueue::Ring::take_if(const std::function<bool(const Packet&)>& wanted,
                               std::vector<PacketPtr>& out) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count_; ++i) {
    if (wanted(*place(i))) {
      out.push_back(std::move(place(i)));
    } else {
      if (kept != i) place(kept) = std::move(place(i));
      ++kept;
    }
  }
  count_ = kept;
}

StageQueue::StageQueue(std::size_t capacity, bool of_keeper)
    : capacity_(std::max<std::size_t>(capacity, 1)), of_keeper_(of_keeper) {
  rings_[-kPriorityMin].reserve(capacity_);
}

StageQueue::Ring& StageQueue::ring_of(const PacketPtr& packet) {
  const int priority = packet->header.priority;
  TESSERA_CHECK(priority >= kPriorityMin && priority <= kPriorityMax, "priority {}", priority);
  return rings_[static_cast<std::size_t>(priority - kPriorityMin)];
}

void StageQueue::put(PacketPtr packet) {
  const int priority = packet->header.priority;
  if (size() == 0 || priority > highest_priority()) {
    highest_.store(priority, std::memory_order_relaxed);
  }
  ring_of(packet).put(std::move(packet));
  size_.store(size() + 1, std::memory_order_relaxed);
}

void StageQueue::note_highest() {
  int priority = highest_priority();
  while (priority > kPriorityMin &&
         rings_[static_cast<std::size_t>(priority - kPriorityMin)].empty()) {
    --priority;
  }
  highest_.store(priority, std::memory_order_relaxed);
}

void StageQueue::tell_of_packets(std::size_t count) {
  if (of_keeper_) {
    for (std::size_t i = 0; i < count; ++i) poke_locked();
  } else if (waiting_for_packets_ > 0) {
    if (count == 1 || waiting_for_packets_ == 1) {
      packets_.notify_one();
    } else {
      packets_.notify_all();
    }
  }
}

bool StageQueue::push(std::span<PacketPtr> packets) {
  std::size_t done = 0;
  std::unique_lock lock(mutex_);
  while (done < packets.size()) {
    while (room() == 0 && !closed_) {
      ++waiting_for_room_;
      room_.wait(lock);
      --waiting_for_room_;
    }
    if (closed_) return false;
    const std::size_t count = std::min(packets.size() - done, room());
    for (std::size_t i = 0; i < count; ++i) ring_of(packets[done + i]).make_room(count);
    for (std::size_t i = 0; i < count; ++i) put(std::move(packets[done++]));
    handed_.store(handed_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    tell_of_packets(count);
  }
  return true;
}

bool StageQueue::try_push(PacketPtr& packet) {
  const std::lock_guard lock(mutex_);
  return push_if_room(packet);
}

bool StageQueue::try_push(PacketPtr& packet, std::size_t stage) {
  const std::lock_guard lock(mutex_);
  if (push_if_room(packet)) return true;
  asked_for_room_ |= 1U << stage;
  return false;
}

bool StageQueue::push_if_room(PacketPtr& packet) {
  if (closed_ || room() == 0) return false;
  ring_of(packet).make_room(1);
  put(std::move(packet));
  handed_.store(handed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  tell_of_packets(1);
  return true;
}

void StageQueue::enter(PacketPtr&& packet, bool quietly) {
  const std::lock_guard lock(mutex_);
  ring_of(packet).make_room(1);
  packet->from_outside = true;
  put(std::move(packet));
  if (!quietly) tell_of_packets(1);
}

// `handed` of the `count` came from the stage before.
void StageQueue::took(std::size_t count, std::size_t handed) {
  size_.store(size() - count, std::memory_order_relaxed);
  handed_.store(handed_.load(std::memory_order_relaxed) - handed, std::memory_order_relaxed);
  note_highest();
  if (handed > 0 && asked_for_room_ != 0) listener_->room(std::exchange(asked_for_room_, 0));
  if (handed == 0 || waiting_for_room_ == 0) return;
  if (handed == 1 || waiting_for_room_ == 1) {
    room_.notify_one();
  } else {
    room_.notify_all();
  }
}

std::size_t StageQueue::take(std::span<PacketPtr> out) {
  const std::size_t count = std::min(out.size(), size());
  std::size_t handed = 0;  // of them
  auto ring = rings_.rbegin() + (kPriorityMax - highest_priority());
  for (std::size_t i = 0; i < count; ++i) {
    while (ring->empty()) ++ring;
    out[i] = ring->take_first();
    if (!std::exchange(out[i]->from_outside, false)) ++handed;
  }
  took(count, handed);
  // Others may be waiting although packets are left: a notification can go to a thread that leaves.
  if (size() > 0 && waiting_for_packets_ > 0) packets_.notify_one();
  return count;
}

PacketPtr StageQueue::take(StagePort::End end) {
  const std::lock_guard lock(mutex_);
  if (size() == 0) return nullptr;
  const auto filled = [](const Ring& ring) { return !ring.empty(); };
  PacketPtr packet = end == StagePort::End::kFirst
                         ? std::find_if(rings_.rbegin(), rings_.rend(), filled)->take_first()
                         : std::find_if(rings_.begin(), rings_.end(), filled)->take_last();
  took(1, std::exchange(packet->from_outside, false) ? 0 : 1);
  return packet;
}

PacketPtr StageQueue::take_handed() {
  const std::lock_guard lock(mutex_);
  if (handed_.load(std::memory_order_relaxed) == 0) return nullptr;
  PacketPtr packet;
  for (auto ring = rings_.rbegin(); packet == nullptr; ++ring) packet = ring->take_first_handed();
  took(1, 1);
  return packet;
}

void StageQueue::take_if(const std::function<bool(const Packet&)>& wanted,
                         std::vector<PacketPtr>& out) {
  const std::lock_guard lock(mutex_);
  const std::size_t before = out.size();
  out.reserve(before + size());
  for (Ring& ring : rings_) ring.take_if(wanted, out);
  std::size_t handed = 0;
  for (std::size_t i = before; i < out.size(); ++i) {
    if (!std::exchange(out[i]->from_outside, false)) ++handed;
  }
  took(out.size() - before, handed);
}

std::size_t StageQueue::pop(std::span<PacketPtr> out, const std::atomic<bool>& leave) {
  std::unique_lock lock(mutex_);
  while (size() == 0 || leave.load(std::memory_order_relaxed)) {
    if (closed_ && size() == 0) return 0;
    if (leave.load(std::memory_order_relaxed)) {
      // What woke this taker is for another one.
      if (size() > 0 && waiting_for_packets_ > 0) packets_.notify_one();
      return 0;
    }
    ++waiting_for_packets_;
    packets_.wait(lock);
    --waiting_for_packets_;
  }
  return take(out);
}

std::size_t StageQueue::try_pop(std::span<PacketPtr> out) {
  const std::lock_guard lock(mutex_);
  return take(out);
}

// More than one for each that waits, and one for the next that comes, would wake no thread.
void StageQueue::poke_locked() {
  if (pokes_ <= waiting_for_packets_) ++pokes_;
  if (waiting_for_packets_ > 0) packets_.notify_one();
}

void StageQueue::poke() {
  const std::lock_guard lock(mutex_);
  poke_locked();
}

bool StageQueue::wait_for_poke(const std::atomic<bool>& leave) {
  std::unique_lock lock(mutex_);
  while (pokes_ == 0 || leave.load(std::memory_order_relaxed)) {
    if (leave.load(std::memory_order_relaxed)) {
      if (pokes_ > 0 && waiting_for_packets_ > 0) packets_.notify_one();
      return false;
    }
    if (closed_) return false;
    ++waiting_for_packets_;
    packets_.wait(lock);
    --waiting_for_packets_;
  }
  --pokes_;
  return true;
}

void StageQueue::wake() {
  const std::lock_guard lock(mutex_);
  packets_.notify_all();
}

void StageQueue::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  packets_.notify_all();
  room_.notify_all();
}

}  // namespace tessera::pipeline
