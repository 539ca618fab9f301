#include "runtime/retained_turns.h"

#include <chrono>

#include "base/guarded.h"
#include "pipeline/own_thread.h"

namespace tessera::runtime {
namespace {

// Mostly a run is over in as much.
constexpr std::chrono::milliseconds kPeriod{2};

// It is not shared any more, and what the devices did with the blocks is done.
bool is_alone(const std::shared_ptr<PacketTurn>& turn) {
  if (turn.use_count() > 1) return false;
  // The count alone orders nothing; giving up one of two does.
  std::shared_ptr<PacketTurn> other = turn;
  other.reset();
  return true;
}

}  // namespace

RetainedTurns::~RetainedTurns() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  // One after the other, however many there are.
  while (first_ != nullptr) first_ = std::shared_ptr(std::move(first_->next));
}

Status RetainedTurns::prepare() {
  return guarded("", [this]() -> Status {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
    return {};
  });
}

// Takes no memory, and so cannot fail.
void RetainedTurns::retain(std::shared_ptr<PacketTurn> turn) {
  order_.retain(*turn);
  turn->uses.clear();  // releasing a block waits for nothing
  const std::lock_guard lock(mutex_);
  turn->next = std::move(first_);
  first_ = std::move(turn);
  changed_.notify_all();
}

void RetainedTurns::end(PacketTurn& turn) {
  for (const std::weak_ptr<OrderedBlock>& block : turn.blocks) {
    // There is room for as many as it had.
    if (auto alive = block.lock()) turn.uses.push_back({std::move(alive), false});
  }
  order_.leave(turn);
  turn.uses.clear();
}

// That a device failed, or that a run hangs, is noticed when the device is to be used;
// those that wait for the turn do not come so far.
void RetainedTurns::look_after_devices() {
  for (const std::unique_ptr<DeviceEntry>& device : devices_) {
    (void)guarded("", [&]() -> Status {
      device->look_after();
      return {};
    });
  }
}

void RetainedTurns::watch() {
  const pipeline::OwnThread mark(this);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || first_ != nullptr; });
    if (stop_) return;
    std::shared_ptr<PacketTurn>* over = &first_;
    while (*over != nullptr && !is_alone(*over)) over = &(*over)->next;
    if (*over == nullptr) {
      lock.unlock();
      look_after_devices();
      lock.lock();
      changed_.wait_for(lock, kPeriod, [this] { return stop_; });
      continue;
    }
    const std::shared_ptr<PacketTurn> ended = std::move(*over);
    *over = std::move(ended->next);
    lock.unlock();
    end(*ended);
    lock.lock();
  }
}

}  // namespace tessera::runtime
