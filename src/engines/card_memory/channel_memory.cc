#include "engines/card_memory/channel_memory.h"

#include <algorithm>

namespace tessera::engines {

namespace {

constexpr std::size_t kWaitingMin = 2;  // always have room

}  // namespace

void ChannelMemory::Side::push(std::uint32_t ticket, Cycles cost) {
  tickets.push(ticket);
  const Cycles until = cost_before(pushed) + cost;
  ++pushed;
  cost_until[pushed % cost_until.size()] = until;
}

void ChannelMemory::Side::clear() {
  tickets.clear();
  pushed = 0;
  cost_until[0] = 0;
}

ChannelMemory::ChannelMemory(const ChipConfig& chip, std::size_t outstanding)
    : costs_(dram_costs(chip)),
      waiting_cost_max_(costs_.cycles(chip.dma.request_bytes * chip.dram.channels)),
      reads_(Box::kLoad, outstanding),
      writes_(Box::kStore, outstanding),
      channel_(chip, {&reads_.port, &writes_.port}, wakes_) {}

void ChannelMemory::reset() {
  channel_.reset();
  wakes_.reset();
  reads_.clear();
  writes_.clear();
}

// Those that the channel has not taken, as seen at the begin of the cycle.
bool ChannelMemory::room(bool write, Cycles now) const {
  const Side& side = write ? writes_ : reads_;
  if (!side.port.requests.can_push(now) || side.tickets.full()) return false;
  const std::size_t waiting = side.tickets.size() - side.port.seen(now);
  if (waiting < kWaitingMin) return true;
  const Cycles cost = side.cost_before(side.pushed) - side.cost_before(side.pushed - waiting);
  return cost < waiting_cost_max_;
}

Cycles ChannelMemory::push(Cycles now, const DramRequest& request, std::uint32_t ticket) {
  Side& side = request.write ? writes_ : reads_;
  side.port.requests.push(now, request);
  side.push(ticket, cost(request));
  return *side.port.channel_full ? kNever : now + 1 + side.port.wake_cycles;
}

Cycles ChannelMemory::cost(const DramRequest& request) const {
  return std::max<Cycles>(1, costs_.cycles(request.runs * request.bytes));
}

const ChannelMemory::Side* ChannelMemory::earliest() const {
  const bool read = !reads_.port.completions.empty(), write = !writes_.port.completions.empty();
  if (!read && !write) return nullptr;
  if (!write) return &reads_;
  if (!read) return &writes_;
  return writes_.port.completions.front() < reads_.port.completions.front() ? &writes_ : &reads_;
}

const MemoryPort::Completion* ChannelMemory::completion() const {
  const Side* side = earliest();
  if (side == nullptr) return nullptr;
  front_ = {.at = side->port.completions.front(), .ticket = side->tickets.front()};
  return &front_;
}

void ChannelMemory::take_completion() {
  Side& side = earliest() == &reads_ ? reads_ : writes_;
  side.port.completions.pop();
  side.tickets.pop();
}

Cycles ChannelMemory::step(Cycles now) { return channel_.step(now); }

}  // namespace tessera::engines
