#include "engines/card_memory/card_network.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::engines {

CardNetwork::CardNetwork(const NetworkSizes& sizes, std::size_t messages_max,
                         std::size_t first_card, CardWakes& wakes)
    : sizes_(sizes),
      first_card_(first_card),
      wakes_(wakes),
      ports_(static_cast<std::size_t>(sizes.cards), Port(messages_max)) {}

void CardNetwork::reset() {
  for (Port& port : ports_) {
    port.inject.clear();
    port.deliveries.clear();
    port.send_free = port.receive_free = {};
    port.counters = {};
  }
}

CardNetwork::WireTime CardNetwork::after(WireTime time, std::int64_t wire_bytes) const {
  __extension__ using Wide = __int128;
  const std::int64_t parts = sizes_.cycles_of_byte.denominator();
  const Wide sum = static_cast<Wide>(wire_bytes) * sizes_.cycles_of_byte.numerator() + time.part;
  return {time.cycle + static_cast<Cycles>(sum / parts), static_cast<std::int64_t>(sum % parts)};
}

void CardNetwork::send(const NetworkMessage& message, Cycles now) {
  TESSERA_CHECK(message.from != message.to, "card {} sends to itself", message.from);
  Port& from = ports_[static_cast<std::size_t>(message.from)];
  Port& to = ports_[static_cast<std::size_t>(message.to)];
  // When its first byte goes out, so that both sides are free for it.
  WireTime receive = to.receive_free;
  receive.cycle -= sizes_.latency_cycles;
  const WireTime begin = std::max({WireTime{now, 0}, from.send_free, receive});
  const auto whole = [](const WireTime& time) { return time.cycle + (time.part > 0 ? 1 : 0); };
  const Cycles out_free = std::max(now, whole(from.send_free));
  const std::int64_t wire_bytes = sizes_.frame.wire_bytes(message.bytes);
  from.send_free = after(begin, wire_bytes);
  to.receive_free = from.send_free;
  to.receive_free.cycle += sizes_.latency_cycles;
  from.counters.sent.bytes += wire_bytes;
  ++from.counters.sent.messages;
  to.counters.received.bytes += wire_bytes;
  ++to.counters.received.messages;
  const Cycles there = std::max(whole(to.receive_free), now + 1);
  to.deliveries.push({there, message, whole(begin), whole(from.send_free), out_free - now,
                      whole(begin) - out_free});
  wakes_.wake(first_card_ + static_cast<std::size_t>(message.to), there);
}

Cycles CardNetwork::step(Cycles now) {
  Cycles next = kNever;
  for (Port& port : ports_) {
    while (port.inject.can_pop(now)) send(port.inject.pop(now), now);
    if (!port.inject.empty()) next = now + 1;
  }
  return next;
}

Cycles CardNetwork::next_seen() const {
  Cycles next = kNever;
  for (const Port& port : ports_) {
    if (!port.inject.empty()) next = std::min(next, port.inject.front_visible_at());
  }
  return next;
}

}  // namespace tessera::engines
