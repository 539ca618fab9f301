#include "arch/port_schedule.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

PortSchedule::PortSchedule(std::int32_t banks, std::int32_t read_ports, std::int32_t write_ports)
    : ports_(2 * static_cast<std::size_t>(banks)) {
  for (std::int32_t bank = 0; bank < banks; ++bank) {
    port(bank, false).rate_max = read_ports * kWholePort;
    port(bank, true).rate_max = write_ports * kWholePort;
  }
}

std::optional<PortSchedule> PortSchedule::of(const ChipConfig& chip) {
  const auto& buffer = chip.state_buffer;
  if (buffer.banks == 0) return std::nullopt;
  return PortSchedule(buffer.banks, buffer.read_ports, buffer.write_ports);
}

void PortSchedule::reset() {
  for (Port& port : ports_) port.changes.clear();
}

void PortSchedule::forget(Port& port, Cycles now) {
  std::vector<Change>& changes = port.changes;
  std::size_t past = 0;
  while (past + 1 < changes.size() && changes[past + 1].at <= now) ++past;
  changes.erase(changes.begin(), changes.begin() + static_cast<std::ptrdiff_t>(past));
}

std::int64_t PortSchedule::most_taken(const Port& port, Cycles first, Cycles last) {
  std::int64_t most = 0;
  for (std::size_t i = 0; i < port.changes.size() && port.changes[i].at < last; ++i) {
    const bool over = i + 1 < port.changes.size() && port.changes[i + 1].at <= first;
    if (!over) most = std::max(most, port.changes[i].rate);
  }
  return most;
}

std::int64_t PortSchedule::taken(std::int32_t bank, bool write, Cycles at) const {
  return most_taken(ports_[index(bank, write)], at, at + 1);
}

// The longer it takes, the more parts of others lie in its way: until it is long enough.
Cycles PortSchedule::length(Cycles at, Cycles occupancy, Cycles most) const {
  Cycles length = occupancy;
  for (bool enough = false; !enough && length <= most;) {
    enough = true;
    for (const std::size_t index : wanted_) {
      const Port& port = ports_[index];
      const std::int64_t free = port.rate_max - most_taken(port, at, at + length);
      if (free <= 0) return kNever;
      const Cycles needed = ceil_div(port.wanted * kWholePort, free);
      if (needed <= length) continue;
      length = needed;
      enough = false;
    }
  }
  return length;
}

void PortSchedule::want(std::span<const PortDemand> demands) {
  for (const std::size_t at : wanted_) ports_[at].wanted = 0;
  wanted_.clear();
  const auto want_of = [this](std::int32_t bank, bool write, Cycles cycles) {
    if (cycles == 0) return;
    Port& wanted = port(bank, write);
    if (wanted.wanted == 0) wanted_.push_back(index(bank, write));
    wanted.wanted += cycles;
  };
  for (const PortDemand& demand : demands) {
    want_of(demand.bank, false, demand.reads);
    want_of(demand.bank, true, demand.writes);
  }
}

std::size_t PortSchedule::change_at(Port& port, Cycles at) {
  std::vector<Change>& changes = port.changes;
  std::size_t i = changes.size();
  while (i > 0 && changes[i - 1].at >= at) --i;
  if (i < changes.size() && changes[i].at == at) return i;
  const std::int64_t before = i > 0 ? changes[i - 1].rate : 0;
  changes.insert(changes.begin() + static_cast<std::ptrdiff_t>(i), {.at = at, .rate = before});
  return i;
}

void PortSchedule::add(Port& port, const PortSlot& slot, std::int64_t rate) {
  const std::size_t first = change_at(port, slot.begin);
  const std::size_t last = change_at(port, slot.end);
  for (std::size_t i = first; i < last; ++i) port.changes[i].rate += rate;
}

Cycles PortSchedule::alone(Cycles occupancy, std::span<const PortDemand> demands) {
  want(demands);
  Cycles length = occupancy;
  for (const std::size_t at : wanted_) {
    const Port& port = ports_[at];
    length = std::max(length, ceil_div(port.wanted * kWholePort, port.rate_max));
  }
  return length;
}

PortSlot PortSchedule::reserve(Cycles now, Cycles occupancy, std::span<const PortDemand> demands,
                               Cycles wait) {
  TESSERA_CHECK(occupancy > 0, "a step of {} cycles", occupancy);
  want(demands);
  const Cycles from = now + wait;
  begins_.assign(1, from);
  for (const std::size_t at : wanted_) {
    forget(ports_[at], now);
    for (const Change& change : ports_[at].changes) {
      if (change.at > from) begins_.push_back(change.at);
    }
  }
  std::sort(begins_.begin(), begins_.end());
  PortSlot best{.begin = 0, .end = kNever};
  for (const Cycles begin : begins_) {
    if (begin + occupancy >= best.end) break;
    const Cycles cycles = length(begin, occupancy, best.end - begin);
    if (cycles < best.end - begin) best = {begin, begin + cycles};
  }
  for (const std::size_t at : wanted_) {
    Port& port = ports_[at];
    add(port, best, ceil_div(port.wanted * kWholePort, best.length()));
  }
  return best;
}

}  // namespace tessera
