#include "pipeline/stage_queue.h"

#include <algorithm>
#include <utility>

namespace tessera::pipeline {

StageQueue::StageQueue(std::size_t capacity)
    : capacity_(std::max<std::size_t>(capacity, 1)), ring_(capacity_) {}

void StageQueue::make_room(std::size_t count) {
  if (size() + count <= ring_.size()) return;
  std::vector<PacketPtr> larger(std::max(2 * ring_.size(), size() + count));
  for (std::size_t i = 0; i < size(); ++i) {
    larger[i] = std::move(ring_[first_]);
    if (++first_ == ring_.size()) first_ = 0;
  }
  ring_ = std::move(larger);
  first_ = 0;
}

void StageQueue::put(PacketPtr packet) {
  std::size_t place = first_ + size();
  if (place >= ring_.size()) place -= ring_.size();
  ring_[place] = std::move(packet);
  size_.store(size() + 1, std::memory_order_relaxed);
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
    make_room(count);
    for (std::size_t i = 0; i < count; ++i) put(std::move(packets[done++]));
    handed_.store(handed_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    if (waiting_for_packets_ == 0) continue;
    if (count == 1 || waiting_for_packets_ == 1) {
      packets_.notify_one();
    } else {
      packets_.notify_all();
    }
  }
  return true;
}

bool StageQueue::try_push(PacketPtr& packet) {
  const std::lock_guard lock(mutex_);
  if (closed_ || room() == 0) return false;
  make_room(1);
  put(std::move(packet));
  handed_.store(handed_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (waiting_for_packets_ > 0) packets_.notify_one();
  return true;
}

void StageQueue::enter(PacketPtr&& packet) {
  const std::lock_guard lock(mutex_);
  make_room(1);
  packet->from_outside = true;
  put(std::move(packet));
  if (waiting_for_packets_ > 0) packets_.notify_one();
}

std::size_t StageQueue::take(std::span<PacketPtr> out) {
  const std::size_t count = std::min(out.size(), size());
  std::size_t handed = 0;  // of them
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = std::move(ring_[first_]);
    if (!std::exchange(out[i]->from_outside, false)) ++handed;
    if (++first_ == ring_.size()) first_ = 0;
  }
  size_.store(size() - count, std::memory_order_relaxed);
  handed_.store(handed_.load(std::memory_order_relaxed) - handed, std::memory_order_relaxed);
  if (handed > 0 && waiting_for_room_ > 0) {
    if (handed == 1 || waiting_for_room_ == 1) {
      room_.notify_one();
    } else {
      room_.notify_all();
    }
  }
  // Others may be waiting although packets are left: a notification can go to one who leaves.
  if (size() > 0 && waiting_for_packets_ > 0) packets_.notify_one();
  return count;
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
