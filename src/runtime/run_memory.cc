#include "runtime/run_memory.h"

#include <algorithm>

#include "base/guarded.h"

namespace tessera::runtime {

void RunMemory::tell_first() {
  wanted_.store(!waiting_.empty(), std::memory_order_relaxed);
  if (!waiting_.empty()) waiting_.front()->memory_given();
}

Result<bool> RunMemory::take(Waiter& who, std::span<const Bytes> sizes,
                             std::vector<device::Block>& blocks) {
  const std::lock_guard lock(mutex_);
  const auto mine = std::find(waiting_.begin(), waiting_.end(), &who);
  if (!waiting_.empty() && mine != waiting_.begin()) {
    if (mine == waiting_.end()) waiting_.push_back(&who);
    wanted_.store(true, std::memory_order_relaxed);
    return false;
  }
  blocks.reserve(sizes.size());
  for (const Bytes size : sizes) {
    const auto block = guarded("", [&] { return device_.allocate(size); });
    if (block.ok()) {
      blocks.push_back(*block);
      continue;
    }
    for (const device::Block& taken : blocks) (void)device_.release(taken);
    blocks.clear();
    const bool some_may_come = taken_ > 0 || device_.counters().memory.in_quarantine.value > 0;
    if (block.error().code == ErrorCode::kDoesNotFit && some_may_come) {
      if (waiting_.empty()) waiting_.push_back(&who);
      wanted_.store(true, std::memory_order_relaxed);
      return false;
    }
    end_turn();
    return block.error();
  }
  ++taken_;
  end_turn();  // there may be room for more
  return true;
}

// He is told, too: others of his runs may have waited in this turn.
void RunMemory::end_turn() {
  if (waiting_.empty()) return tell_first();
  Waiter* const who = waiting_.front();
  waiting_.erase(waiting_.begin());
  who->memory_given();
  tell_first();
}

void RunMemory::give(std::vector<device::Block>& blocks) {
  const std::lock_guard lock(mutex_);
  for (const device::Block& block : blocks) (void)device_.release(block);
  blocks.clear();
  --taken_;
  tell_first();
}

void RunMemory::leave(Waiter& who) {
  const std::lock_guard lock(mutex_);
  const auto mine = std::find(waiting_.begin(), waiting_.end(), &who);
  if (mine == waiting_.end()) return;
  const bool first = mine == waiting_.begin();
  waiting_.erase(mine);
  if (first) tell_first();
}

}  // namespace tessera::runtime
