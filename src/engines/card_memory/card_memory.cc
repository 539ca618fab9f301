#include "engines/card_memory/card_memory.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/check.h"

namespace tessera::engines {

CardMemory::CardMemory(const UnitSizes& sizes, const RingSizes& ring, const NetworkSizes& network,
                       const std::vector<std::vector<CorePort>>& ports,
                       const std::vector<MemoryPort*>& memories)
    : groups_of_card_(ring.groups),
      cores_of_group_(sizes.cores_per_group),
      memories_(memories),
      wakes_(2 * memories.size() + static_cast<std::size_t>(sizes.cards) + 1),
      order_(wakes_.size()),
      memory_stepped_(memories.size()),
      ports_(ports) {
  const std::size_t groups = memories.size();
  TESSERA_CHECK(static_cast<int>(groups) == sizes.groups && groups == ports.size() &&
                    sizes.groups == sizes.cards * ring.groups && sizes.cards == network.cards,
                "{} memories and {} sets of ports for {} groups, {} on each ring of {} cards",
                groups, ports.size(), sizes.groups, ring.groups, sizes.cards);
  std::size_t outstanding = 0;
  for (const auto& of_group : ports) {
    for (const CorePort& one : of_group) outstanding += one.port->completions.capacity();
  }
  const std::size_t first_ring = 2 * groups;
  for (int card = 0; ring.groups > 1 && card < sizes.cards; ++card) {
    rings_.push_back(std::make_unique<GroupRing>(
        ring, outstanding, static_cast<std::size_t>(card * ring.groups), wakes_));
    rings_.back()->trace_to(trace_);
    rings_.back()->count_waits_in(waits_);
  }
  if (sizes.cards > 1) {
    network_ = std::make_unique<NetworkStations>(network, ring.groups, 2 * outstanding, wakes_);
    network_->trace_to(trace_);
    network_->count_waits_in(waits_);
  }
  for (std::size_t g = 0; g < groups; ++g) {
    const int card = static_cast<int>(g) / ring.groups;
    const LoadSaveUnit::Wiring wiring{
        .group = static_cast<int>(g),
        .ports = ports[g],
        .memory = memories[g],
        .ring = this->ring(card),
        .network = network_.get(),
        .wakes = &wakes_,
        .trace = &trace_,
        .waits = &waits_,
        .box = g,
        .memory_box = groups + g,
        .ring_box = first_ring + static_cast<std::size_t>(card),
        .network_box = first_ring + static_cast<std::size_t>(sizes.cards)};
    units_.push_back(std::make_unique<LoadSaveUnit>(sizes, wiring, outstanding));
  }
  std::iota(order_.begin(), order_.end(), std::size_t{0});
}

void CardMemory::reset() {
  waits_.reset();
  wakes_.reset();
  for (auto& ring : rings_) ring->reset();
  if (network_) network_->reset();
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
  } else if (box + 1 == wakes_.size()) {
    if (network_) next = network_->step(now);
  } else if (!rings_.empty()) {
    next = rings_[box - 2 * groups]->step(now);
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

void CardMemory::place(const CardPlaces& places, std::int64_t weight) {
  std::size_t outstanding = 0;
  for (std::size_t g = 0; g < ports_.size(); ++g) {
    for (const CorePort& one : ports_[g]) {
      const auto core = static_cast<int>(g) * cores_of_group_ + one.core;
      if (std::ranges::find(places.core, core) == places.core.end()) continue;
      outstanding += one.port->completions.capacity();
    }
  }
  for (const std::uint8_t group : places.group) unit(group).place(places, weight, outstanding);
  place_lanes(places, outstanding);
}

void CardMemory::place_lanes(const CardPlaces& places, std::size_t outstanding) {
  const int cores = groups_of_card_ * cores_of_group_;
  int least = cores;
  for (int card = 0; card * groups_of_card_ < static_cast<int>(units_.size()); ++card) {
    const auto own = static_cast<int>(
        std::ranges::count_if(places.core, [&](int core) { return core / cores == card; }));
    if (own == 0) continue;
    least = std::min(least, own);
    if (ring(card) != nullptr) {
      ring(card)->set_lane(places.program, Ratio(own, cores), outstanding);
    }
  }
  if (network_) network_->set_lane(places.program, Ratio(least, cores), 2 * outstanding);
}

void CardMemory::remove(const CardPlaces& places) {
  for (const std::uint8_t group : places.group) unit(group).remove(places);
}

void CardMemory::stop(const CardPlaces& places, Cycles now) {
  for (const std::uint8_t group : places.group) {
    unit(group).stop(places.program, now);
    wake(group, now + 1);
  }
}

bool CardMemory::quiet(const CardPlaces& places) const {
  return std::ranges::all_of(places.group, [&](std::uint8_t group) {
    return units_[group]->in_flight(places.program) == 0;
  });
}

bool CardMemory::stuck(const CardPlaces& places, Cycles now) const {
  std::size_t all = 0, waiting = 0;
  for (const std::uint8_t group : places.group) {
    all += units_[group]->in_flight(places.program);
    waiting += units_[group]->waiting_for_members(places.program, now);
  }
  return all == waiting;
}

void CardMemory::settle(const CardPlaces& places) {
  for (const std::uint8_t group : places.group) unit(group).settle(places.program);
}

void CardMemory::fill(const CardPlaces& places, std::int64_t bytes, Cycles now) {
  for (const std::uint8_t group : places.group) {
    unit(group).fill(places, bytes, now);
    wake(group, now + 1);
  }
}

bool CardMemory::fills(const CardPlaces& places) const {
  return std::ranges::any_of(
      places.group, [&](std::uint8_t group) { return units_[group]->fills(places.program); });
}

bool CardMemory::has_exceptions() const {
  return std::ranges::any_of(units_, [](const auto& unit) { return unit->has_exceptions(); });
}

std::vector<MemoryException> CardMemory::take_exceptions() {
  std::vector<MemoryException> all;
  for (const auto& unit : units_)
    std::ranges::move(unit->take_exceptions(), std::back_inserter(all));
  return all;
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
  for (const auto& ring : rings_) text += ring->describe() + "\n";
  if (network_) text += network_->describe() + "\n";
  return text;
}

}  // namespace tessera::engines
