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

void PortSchedule::reset() {
  for (Port& port : ports_) port.parts.clear();
}

void PortSchedule::forget_ended(Cycles now) {
  for (const std::size_t at : wanted_) {
    std::erase_if(ports_[at].parts, [now](const Part& part) { return part.last <= now; });
  }
}

std::int64_t PortSchedule::taken(const Port& port, Cycles at) {
  std::int64_t rate = 0;
  for (const Part& part : port.parts) {
    if (part.first <= at && at < part.last) rate += part.rate;
  }
  return rate;
}

std::int64_t PortSchedule::taken(std::int32_t bank, bool write, Cycles at) const {
  return taken(ports_[index(bank, write)], at);
}

// Parts that begin later than `at` count as if they ran already: the least that is free from then
// on is what the step can have all along.
Cycles PortSchedule::length(Cycles at, Cycles occupancy) const {
  Cycles length = occupancy;
  for (const std::size_t index : wanted_) {
    const Port& port = ports_[index];
    std::int64_t rate = 0;
    for (const Part& part : port.parts) {
      if (at < part.last) rate += part.rate;
    }
    const std::int64_t free = port.rate_max - rate;
    if (free <= 0) return 0;
    length = std::max(length, ceil_div(port.wanted * kWholePort, free));
  }
  return length;
}

PortSlot PortSchedule::reserve(Cycles now, Cycles occupancy, std::span<const PortDemand> demands) {
  TESSERA_CHECK(occupancy > 0, "a step of {} cycles", occupancy);
  wanted_.clear();
  const auto want = [&](std::int32_t bank, bool write, Cycles cycles) {
    if (cycles == 0) return;
    Port& wanted = port(bank, write);
    if (wanted.wanted == 0) wanted_.push_back(index(bank, write));
    wanted.wanted += cycles;
  };
  for (const PortDemand& demand : demands) {
    want(demand.bank, false, demand.reads);
    want(demand.bank, true, demand.writes);
  }
  forget_ended(now);
  begins_.assign(1, now);
  for (const std::size_t at : wanted_) {
    for (const Part& part : ports_[at].parts) begins_.push_back(part.last);
  }
  std::sort(begins_.begin(), begins_.end());
  PortSlot best;
  for (const Cycles begin : begins_) {
    const Cycles cycles = length(begin, occupancy);
    if (cycles > 0 && (best.end == 0 || begin + cycles < best.end)) best = {begin, begin + cycles};
  }
  for (const std::size_t at : wanted_) {
    Port& port = ports_[at];
    const std::int64_t rate = ceil_div(port.wanted * kWholePort, best.end - best.begin);
    port.parts.push_back({.rate = rate, .first = best.begin, .last = best.end});
    port.wanted = 0;
  }
  return best;
}

}  // namespace tessera
