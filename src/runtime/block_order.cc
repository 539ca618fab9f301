#include "runtime/block_order.h"

#include <algorithm>
#include <utility>

namespace tessera::runtime {

void BlockOrder::prepare_locked(BlockClaim& claim) {
  for (const BlockClaim::Use& use : claim.uses) {
    std::vector<OrderedBlock::Place>& places = use.block->places_;
    const std::size_t wanted = places.size() + use.block->places_expected_ + 1;
    if (wanted > places.capacity()) places.reserve(2 * wanted + 2);
  }
  for (const BlockClaim::Use& use : claim.uses) ++use.block->places_expected_;
  claim.prepared_ = true;
}

void BlockOrder::prepare(BlockClaim& claim) {
  const std::lock_guard lock(mutex_);
  prepare_locked(claim);
}

void BlockOrder::forget(BlockClaim& claim) {
  const std::lock_guard lock(mutex_);
  if (!claim.prepared_) return;
  claim.prepared_ = false;
  for (const BlockClaim::Use& use : claim.uses) --use.block->places_expected_;
}

// Behind those that are there.
bool BlockOrder::may_go(const BlockClaim::Use& use) {
  const std::vector<OrderedBlock::Place>& places = use.block->places_;
  if (use.writes) return places.empty();
  return std::none_of(places.begin(), places.end(),
                      [](const auto& place) { return place.writes && !place.retained; });
}

bool BlockOrder::enter(BlockClaim& claim) {
  if (claim.uses.empty()) return true;
  const std::lock_guard lock(mutex_);
  return enter_locked(claim);
}

bool BlockOrder::try_enter(BlockClaim& claim) {
  const std::lock_guard lock(mutex_);
  return std::all_of(claim.uses.begin(), claim.uses.end(), may_go) && enter_locked(claim);
}

bool BlockOrder::enter_locked(BlockClaim& claim) {
  if (!claim.prepared_) prepare_locked(claim);
  claim.prepared_ = false;
  claim.missing_ = 0;
  claim.inside_ = true;
  for (const BlockClaim::Use& use : claim.uses) {
    --use.block->places_expected_;
    const bool granted = may_go(use);
    use.block->places_.push_back({&claim, use.writes, granted, false});
    if (!granted) ++claim.missing_;
  }
  return claim.missing_ == 0;
}

// Those who may go to the block now; who may go altogether is put before `ready`, a list.
BlockClaim* BlockOrder::grant(OrderedBlock& block, BlockClaim* ready) {
  std::vector<OrderedBlock::Place>& places = block.places_;
  for (std::size_t i = 0; i < places.size(); ++i) {
    OrderedBlock::Place& place = places[i];
    if (place.writes && i > 0) break;
    if (!place.granted) {
      place.granted = true;
      BlockClaim& next = *place.claim;
      if (--next.missing_ == 0) next.next_ready_ = std::exchange(ready, &next);
    }
    if (place.writes && !place.retained) break;
  }
  return ready;
}

void BlockOrder::proceed(BlockClaim* ready) {
  while (ready != nullptr) {
    // It may be gone when it has proceeded.
    BlockClaim* const next = std::exchange(ready, ready->next_ready_);
    next->proceed();
  }
}

void BlockOrder::leave(BlockClaim& claim) {
  BlockClaim* ready = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!claim.inside_) return;
    claim.inside_ = false;
    for (const BlockClaim::Use& use : claim.uses) {
      std::erase_if(use.block->places_,
                    [&](const OrderedBlock::Place& place) { return place.claim == &claim; });
      ready = grant(*use.block, ready);
    }
  }
  proceed(ready);
}

void BlockOrder::retain(BlockClaim& claim) {
  BlockClaim* ready = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (const BlockClaim::Use& use : claim.uses) {
      for (OrderedBlock::Place& place : use.block->places_) {
        if (place.claim == &claim) place.retained = true;
      }
      ready = grant(*use.block, ready);
    }
  }
  proceed(ready);
}

bool BlockOrder::is_used(const OrderedBlock& block) const {
  const std::lock_guard lock(mutex_);
  return !block.places_.empty();
}

}  // namespace tessera::runtime
