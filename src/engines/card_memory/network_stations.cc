#include "engines/card_memory/network_stations.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace tessera::engines {
namespace {

// In a message's tag: it is a result, and the rest is its number.
constexpr std::uint64_t kResult = std::uint64_t{1} << 32;
// It goes to a card in another process, and there is no more of it here.
constexpr std::uint64_t kElsewhere = std::uint64_t{1} << 33;

void add(const CardNetwork::PortCounters& counters, CardNetwork::PortCounters& to) {
  to.sent.bytes += counters.sent.bytes;
  to.sent.messages += counters.sent.messages;
  to.received.bytes += counters.received.bytes;
  to.received.messages += counters.received.messages;
}

}  // namespace

NetworkStations::NetworkStations(const NetworkSizes& sizes, int groups_of_card,
                                 std::size_t messages_max, CardWakes& wakes)
    : sizes_(sizes),
      groups_of_card_(groups_of_card),
      messages_max_(messages_max),
      wakes_(wakes),
      cards_(static_cast<std::size_t>(sizes.cards)),
      networks_(static_cast<std::size_t>(sizes.lanes)),
      past_(static_cast<std::size_t>(sizes.cards)),
      messages_(messages_max),
      deliveries_(static_cast<std::size_t>(sizes.lanes) * groups(), Ring<Delivery>(0)) {
  if (sizes.lanes == 1) set_lane(0, Ratio(1, 1), messages_max);
  reset();
}

void NetworkStations::set_lane(std::uint32_t lane, const Ratio& part, std::size_t messages_max) {
  NetworkSizes sizes = sizes_;
  sizes.cycles_of_byte = Ratio(sizes_.cycles_of_byte.numerator() * part.denominator(),
                               sizes_.cycles_of_byte.denominator() * part.numerator());
  if (networks_[lane]) {
    for (int card = 0; card < sizes_.cards; ++card) {
      add(networks_[lane]->counters(card), past_[static_cast<std::size_t>(card)]);
    }
  }
  networks_[lane] = std::make_unique<CardNetwork>(sizes, messages_max, 0, cards_);
  for (std::size_t group = 0; group < groups(); ++group) {
    deliveries_[lane * groups() + group] = Ring<Delivery>(messages_max);
  }
}

CardNetwork::PortCounters NetworkStations::counters(int card) const {
  CardNetwork::PortCounters all = past_[static_cast<std::size_t>(card)];
  for (const auto& network : networks_) {
    if (network) add(network->counters(card), all);
  }
  return all;
}

void NetworkStations::reset() {
  past_.assign(static_cast<std::size_t>(sizes_.cards), {});
  for (const auto& network : networks_) {
    if (network) network->reset();
  }
  free_.clear();
  for (std::size_t i = messages_max_; i-- > 0;) free_.push_back(static_cast<std::uint32_t>(i));
  for (Ring<Delivery>& ring : deliveries_) ring.clear();
  results_.clear();
  departures_.clear();
}

Cycles NetworkStations::send_result(int from, int to, std::int64_t bytes, std::uint32_t number,
                                    Cycles now) {
  networks_[0]->inject(from).push(
      now, {.from = from, .to = to, .bytes = bytes, .tag = kResult | number});
  if (!is_split_) return now + 1;
  Departure departure{.at = now, .is_result = true};
  departure.from_card = from;
  departure.to_card = to;
  departure.message.bytes = bytes;
  departure.number = number;
  departures_.push_back(departure);
  return kNever;
}

Cycles NetworkStations::send(int group, const CardMessage& message, Cycles now) {
  TESSERA_CHECK(message.to != 0, "a message to no group");
  const int from = group / groups_of_card_, to = std::countr_zero(message.to) / groups_of_card_;
  inject(from, to, message, now);
  if (!is_split_) return now + 1;
  departures_.push_back({.at = now, .message = message, .from_card = from, .to_card = to});
  if (message.request.dram.grid != nullptr) departures_.back().grid = *message.request.dram.grid;
  return kNever;
}

void NetworkStations::inject(int from, int to, const CardMessage& message, Cycles now) {
  std::uint64_t tag = kElsewhere;
  if (is_here(to)) {
    TESSERA_CHECK(!free_.empty(), "more than {} messages", messages_max_);
    tag = free_.back();
    free_.pop_back();
    messages_[tag] = message;
  }
  networks_[message.program]->inject(from).push(
      now, {.from = from, .to = to, .bytes = message.bytes, .tag = tag});
}

void NetworkStations::split(std::uint32_t cards_here) {
  TESSERA_CHECK(sizes_.lanes == 1, "{} lanes", sizes_.lanes);
  is_split_ = true;
  cards_here_ = cards_here;
}

void NetworkStations::arrive(const Departure& departure) {
  const int from = departure.from_card, to = departure.to_card;
  if (!departure.is_result) return inject(from, to, departure.message, departure.at);
  const std::uint64_t tag = kResult | departure.number | (is_here(to) ? 0 : kElsewhere);
  networks_[0]->inject(from).push(
      departure.at, {.from = from, .to = to, .bytes = departure.message.bytes, .tag = tag});
}

Cycles NetworkStations::settle(Cycles given_before) {
  first_arrival_ = kNever;
  for (Cycles seen = networks_[0]->next_seen(); seen <= given_before;
       seen = networks_[0]->next_seen()) {
    (void)networks_[0]->step(seen);
    take_deliveries(0);
  }
  return first_arrival_;
}

Cycles NetworkStations::step(Cycles now) {
  Cycles next = kNever;
  for (std::uint32_t lane = 0; lane < networks_.size(); ++lane) {
    if (!networks_[lane]) continue;
    next = std::min(next, networks_[lane]->step(now));
    take_deliveries(lane);
  }
  return next;
}

void NetworkStations::add_to_trace(const CardNetwork::Delivery& delivery) {
  const NetworkMessage& message = delivery.message;
  WireUse use{.wire = WireUse::Wire::kNetworkOut,
              .index = message.from,
              .begin = delivery.sent_from,
              .end = delivery.sent_until};
  if ((message.tag & kResult) == 0) {
    const CardMessage& of = messages_[static_cast<std::uint32_t>(message.tag)];
    use = WireUse::of(of.request, use.wire, use.index, use.begin, use.end);
  }
  use.bytes = message.bytes;
  trace_->add(use);
  use.wire = WireUse::Wire::kNetworkIn;
  use.index = message.to;
  use.begin += sizes_.latency_cycles;
  use.end += sizes_.latency_cycles;
  trace_->add(use);
}

// Of results, which nobody asks for, none.
void NetworkStations::count_waits(const CardNetwork::Delivery& delivery) {
  if ((delivery.message.tag & kResult) != 0) return;
  const CardRequest& request = messages_[static_cast<std::uint32_t>(delivery.message.tag)].request;
  waits_->add_wire(request, WireUse::Wire::kNetworkOut, delivery.message.from, delivery.waited_out);
  waits_->add_wire(request, WireUse::Wire::kNetworkIn, delivery.message.to, delivery.waited_in);
}

void NetworkStations::take_deliveries(std::uint32_t lane) {
  for (std::size_t card = 0; card < cards_.size(); ++card) {
    Ring<CardNetwork::Delivery>& known = networks_[lane]->deliveries(static_cast<int>(card));
    while (!known.empty()) {
      const CardNetwork::Delivery delivery = known.front();
      known.pop();
      first_arrival_ = std::min(first_arrival_, delivery.at);
      if ((delivery.message.tag & kElsewhere) != 0) continue;
      if (trace_ != nullptr) add_to_trace(delivery);
      if (waits_ != nullptr) count_waits(delivery);
      if ((delivery.message.tag & kResult) != 0) {
        if (!is_here(delivery.message.to)) continue;
        results_.push_back(
            {delivery.at, static_cast<std::uint32_t>(delivery.message.tag), delivery.message.to});
        continue;
      }
      const auto tag = static_cast<std::uint32_t>(delivery.message.tag);
      for (GroupSet rest = messages_[tag].to; rest != 0; rest &= rest - 1) {
        const int group = std::countr_zero(rest);
        deliveries(group, lane).push({delivery.at, messages_[tag]});
        // Not before: what is behind lookahead() may be over by then.
        wakes_.wake(static_cast<std::size_t>(group), delivery.at + sizes_.frame.unpack_cycles);
      }
      free_.push_back(tag);
    }
  }
}

std::string NetworkStations::describe() const {
  std::size_t waiting = 0;
  for (const Ring<Delivery>& ring : deliveries_) waiting += ring.size();
  return fmt::format("network: {} messages on their way, {} deliveries",
                     messages_max_ - free_.size(), waiting);
}

}  // namespace tessera::engines
