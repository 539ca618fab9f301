#include "runtime/room.h"

#include "runtime/patience.h"

namespace tessera::runtime {

bool Room::try_take() {
  std::size_t taken = taken_.load();
  do {
    if (taken >= places_) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + 1));
  return true;
}

void Room::take() {
  while (!try_take()) wait(kForever);
}

// Either this sees the waiter, or it sees the place: both look after they have written, in one
// order for all threads.
void Room::give_back() {
  taken_.fetch_sub(1);
  if (waiting_.load() == 0) return;
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

bool Room::wait(std::chrono::nanoseconds patience) {
  const auto free = [this] { return taken_.load() < places_; };
  if (free()) return true;
  std::unique_lock lock(mutex_);
  waiting_.fetch_add(1);
  const bool found = wait_on(changed_, lock, patience, free);
  waiting_.fetch_sub(1);
  return found;
}

}  // namespace tessera::runtime
