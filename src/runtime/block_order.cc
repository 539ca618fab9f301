#include "runtime/block_order.h"

#include <algorithm>
#include <utility>

#include "runtime/memory_state.h"

namespace tessera::runtime {

bool BlockOrder::enter(BlockClaim& claim) {
  if (claim.uses.empty()) return true;
  const std::lock_guard lock(mutex_);
  // Whatever fails fails here, before anything has changed.
  for (const BlockClaim::Use& use : claim.uses) {
    std::vector<BlockState::Place>& places = use.block->places;
    if (places.size() == places.capacity()) places.reserve(2 * places.size() + 4);
  }
  claim.missing_ = 0;
  claim.inside_ = true;
  for (const BlockClaim::Use& use : claim.uses) {
    std::vector<BlockState::Place>& places = use.block->places;
    const bool granted = use.writes ? places.empty()
                                    : std::none_of(places.begin(), places.end(),
                                                   [](const auto& p) { return p.writes; });
    places.push_back({&claim, use.writes, granted});
    if (!granted) ++claim.missing_;
  }
  return claim.missing_ == 0;
}

void BlockOrder::leave(BlockClaim& claim) {
  BlockClaim* ready = nullptr;  // a list
  {
    const std::lock_guard lock(mutex_);
    if (!claim.inside_) return;
    claim.inside_ = false;
    for (const BlockClaim::Use& use : claim.uses) {
      std::vector<BlockState::Place>& places = use.block->places;
      std::erase_if(places, [&](const BlockState::Place& place) { return place.claim == &claim; });
      for (std::size_t i = 0; i < places.size(); ++i) {
        if (places[i].writes && i > 0) break;
        if (!places[i].granted) {
          places[i].granted = true;
          BlockClaim& next = *places[i].claim;
          if (--next.missing_ == 0) next.next_ready_ = std::exchange(ready, &next);
        }
        if (places[i].writes) break;
      }
    }
  }
  while (ready != nullptr) {
    // It may be gone when it has proceeded.
    BlockClaim* const next = std::exchange(ready, ready->next_ready_);
    next->proceed();
  }
}

bool BlockOrder::is_used(const BlockState& block) const {
  const std::lock_guard lock(mutex_);
  return !block.places.empty();
}

}  // namespace tessera::runtime
