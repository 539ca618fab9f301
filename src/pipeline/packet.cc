#include "pipeline/packet.h"

#include <chrono>

#include "base/guarded.h"

namespace tessera::pipeline {

Nanoseconds now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Packet::fail_with_exception() noexcept {
  if (failure == Failure::kNone) fail(Failure::kError, thrown_error(""));
}

void Packet::clear() {
  header = PacketHeader{};
  failure = Failure::kNone;
  failed_stage = 0;
  error.message.clear();
  times.fill({});
  queued_since = 0;
  from_outside = false;
  open_work = -1;
}

PacketPool::Pointer PacketPool::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) {
    all_.push_back(factory_());
    free_.reserve(all_.size());
    return Pointer(all_.back().get(), GiveBack{this});
  }
  Packet* const packet = free_.back();
  free_.pop_back();
  return Pointer(packet, GiveBack{this});
}

void PacketPool::give_back(Packet* packet) {
  packet->clear();  // may release much memory: outside the lock
  const std::lock_guard lock(mutex_);
  free_.push_back(packet);
}

std::size_t PacketPool::made() const {
  const std::lock_guard lock(mutex_);
  return all_.size();
}

}  // namespace tessera::pipeline
