#include "engines/card_memory/card_memory.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace tessera::engines {

CardMemory::CardMemory(const UnitSizes& sizes, const RingSizes& ring,
                       const std::vector<std::vector<CorePort*>>& ports,
                       const std::vector<MemoryPort*>& memories, CoreWaker& cores)
    : memories_(memories),
      wakes_(2 * memories.size() + 1),
      order_(wakes_.size()),
      memory_stepped_(memories.size()) {
  const std::size_t groups = memories.size();
  TESSERA_CHECK(static_cast<int>(groups) == sizes.groups && sizes.groups == ring.groups &&
                    groups == ports.size(),
                "{} memories and {} sets of ports for {} groups, {} on the ring", groups,
                ports.size(), sizes.groups, ring.groups);
  std::size_t outstanding = 0;
  for (const auto& of_group : ports) {
    for (const CorePort* port : of_group) outstanding += port->completions.capacity();
  }
  if (groups > 1) ring_ = std::make_unique<GroupRing>(ring, outstanding, 0, wakes_);
  for (std::size_t g = 0; g < groups; ++g) {
    const LoadSaveUnit::Wiring wiring{.group = static_cast<int>(g),
                                      .ports = ports[g],
                                      .memory = memories[g],
                                      .ring = ring_.get(),
                                      .wakes = &wakes_,
                                      .box = g,
                                      .memory_box = groups + g,
                                      .ring_box = 2 * groups,
                                      .cores = &cores};
    units_.push_back(std::make_unique<LoadSaveUnit>(sizes, wiring, outstanding));
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

void CardMemory::reset() {
  wakes_.reset();
  if (ring_) ring_->reset();
  for (MemoryPort* memory : memories_) memory->reset();
  for (auto& unit : units_) unit->reset();
}

void CardMemory::step_box(std::size_t box, Cycles now) {
  const std::size_t groups = memories_.size();
  Cycles next = kNever;
  if (box < groups) {
    next = units_[box]->step(now);
  } else if (box < 2 * groups) {
    next = memories_[box - groups]->step(now);
    memory_stepped_[box - groups] = true;
  } else if (ring_) {
    next = ring_->step(now);
  }
  if (next != kNever) wakes_.wake(box, next);
}

Cycles CardMemory::step(Cycles now) { return step(now, order_); }

Cycles CardMemory::step(Cycles now, std::span<const std::size_t> order) {
  // Those that are due at `now`; what they wake is for later cycles.
  std::uint64_t due = 0;
  for (std::size_t box = 0; box < wakes_.size(); ++box) {
    if (wakes_.take_due(box, now)) due |= std::uint64_t{1} << box;
  }
  for (const std::size_t box : order) {
    if ((due >> box & 1) != 0) step_box(box, now);
  }
  // What a memory has made known or room for in this cycle is news for its unit, whichever was first.
  for (std::size_t g = 0; g < memories_.size(); ++g) {
    if (!memory_stepped_[g]) continue;
    memory_stepped_[g] = false;
    if (units_[g]->wants_room()) wakes_.wake(g, now + 1);
    if (const auto* done = memories_[g]->completion()) wakes_.wake(g, std::max(done->at, now + 1));
  }
  return wakes_.earliest();
}

std::optional<ShareFault> CardMemory::fault() const {
  for (const auto& unit : units_) {
    if (const auto fault = unit->fault()) return fault;
  }
  return std::nullopt;
}

std::string CardMemory::describe() const {
  std::string text;
  for (const auto& unit : units_) text += unit->describe() + "\n";
  if (ring_) text += ring_->describe() + "\n";
  return text;
}

}  // namespace tessera::engines
