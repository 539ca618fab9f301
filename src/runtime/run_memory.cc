#include "runtime/run_memory.h"

#include <algorithm>

#include "base/guarded.h"

namespace tessera::runtime {
namespace {

constexpr std::chrono::milliseconds kPatience{5};

}  // namespace

void RunMemory::tell_first() {
  wanted_.store(!waiting_.empty(), std::memory_order_relaxed);
  if (waiting_.empty()) {
    short_.store(false, std::memory_order_relaxed);
  } else {
    waiting_.front()->memory_given();
  }
}

void RunMemory::tell_of_more() {
  in_vain_since_.reset();
  tell_first();
}

void RunMemory::join(Holder& holder) {
  const std::lock_guard lock(mutex_);
  holders_.push_back(&holder);
}

void RunMemory::part(Holder& holder) {
  const std::lock_guard lock(mutex_);
  std::erase(holders_, &holder);
}

// All or none.
Status RunMemory::allocate(std::span<const Bytes> sizes, std::vector<device::MemoryBlock>& blocks) {
  for (const Bytes size : sizes) {
    const auto block = guarded("", [&] { return device_.allocate(size); });
    if (block.ok()) {
      blocks.push_back(*block);
      continue;
    }
    for (const device::MemoryBlock& taken : blocks) (void)device_.release(taken);
    blocks.clear();
    return block.error();
  }
  return {};
}

Result<bool> RunMemory::take(Waiter& who, std::span<const Bytes> sizes,
                             std::vector<device::MemoryBlock>& blocks) {
  const std::lock_guard lock(mutex_);
  const auto mine = std::find(waiting_.begin(), waiting_.end(), &who);
  if (!waiting_.empty() && mine != waiting_.begin()) {
    if (mine == waiting_.end()) waiting_.push_back(&who);
    wanted_.store(true, std::memory_order_relaxed);
    return false;
  }
  blocks.reserve(sizes.size());
  Status status = allocate(sizes, blocks);
  if (!status.ok() && status.error().code == ErrorCode::kDoesNotFit) {
    if (taken_ > 0 || stay_ > 0 || device_.counters().memory.in_quarantine.value > 0) {
      wait(who);
      return false;
    }
    // What was in quarantine may have come back between the two, and what is unused may be too
    // large for what it was given to.
    device_.trim();
    status = allocate(sizes, blocks);
  }
  if (status.ok()) {
    ++taken_;
    in_vain_since_.reset();
    short_.store(false, std::memory_order_relaxed);
  }
  end_turn();  // there may be room for more, or for others
  if (!status.ok()) return status.error();
  return true;
}

// Runs that are there give theirs mostly before their outputs that stay have to go.
void RunMemory::wait(Waiter& who) {
  if (waiting_.empty()) waiting_.push_back(&who);
  wanted_.store(true, std::memory_order_relaxed);
  const auto now = std::chrono::steady_clock::now();
  if (!in_vain_since_) in_vain_since_ = now;
  if (stay_ == 0 || (taken_ > 0 && now - *in_vain_since_ < kPatience)) return;
  short_.store(true, std::memory_order_relaxed);
  for (Holder* const holder : holders_) holder->memory_short();
}

// It is notified, too: others of its runs may have waited in this turn.
void RunMemory::end_turn() {
  if (waiting_.empty()) return tell_first();
  Waiter* const who = waiting_.front();
  waiting_.erase(waiting_.begin());
  who->memory_given();
  tell_first();
}

void RunMemory::give(std::vector<device::MemoryBlock>& blocks) {
  const std::lock_guard lock(mutex_);
  for (const device::MemoryBlock& block : blocks) (void)device_.release(block);
  blocks.clear();
  --taken_;
  tell_of_more();
}

void RunMemory::stays() {
  const std::lock_guard lock(mutex_);
  ++stay_;
}

void RunMemory::stays_no_more() {
  const std::lock_guard lock(mutex_);
  if (--stay_ == 0) short_.store(false, std::memory_order_relaxed);
  tell_of_more();
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
