// The network between cards: each card has a port that sends and receives at once.
//
//   card a ─► [ a sends ] ─ latency_cycles ─► [ b receives ] ─► card b
//
// A message of n bytes is frames (frame.h) and holds the sender's side for wire_bytes(n) *
// cycles_of_byte, exactly: nothing is rounded but the cycle in which its last byte is there. It holds
// the receiver's side as long, latency_cycles later. On a quiet network a message seen at t is there at
//
//   t + ceil(wire_bytes(n) * cycles_of_byte) + latency_cycles                     (quiet_cycles)
//
// and k messages from one card, one behind the other, at t + ceil(k * wire_bytes(n) * cycles_of_byte) +
// latency_cycles. Messages go in the order in which they are seen, those of a cycle by sending card; one
// whose receiver is taken holds up those behind it in its card.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ratio.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/frame.h"
#include "engines/fifo.h"

namespace tessera::engines {

struct NetworkSizes {
  int cards = 1;
  Ratio cycles_of_byte{1, 1};  // of the core's clock
  Cycles latency_cycles = 0;   // at least 0
  FrameSizes frame{};
  int lanes = 1;  // of the stations: parts of each port, for programs that share the cards

  // Of a port of so many gigabits (10^9) a second.
  static Ratio cycles_at(std::int64_t core_hertz, std::int64_t gigabits_per_second) {
    return {core_hertz, gigabits_per_second * 125'000'000};
  }
  Cycles quiet_cycles(std::int64_t bytes) const {
    return cycles_of_byte.ceil_of(frame.wire_bytes(bytes)) + latency_cycles;
  }
};

struct NetworkMessage {
  int from = 0, to = 0;  // cards, not the same
  std::int64_t bytes = 0;
  std::uint64_t tag = 0;  // the receiver's and the sender's
};

class CardNetwork {
 public:
  struct Delivery {
    Cycles at = 0;  // its last byte is there; later than the cycle in which this is known
    NetworkMessage message;
    // On its way out of its card; a cycle that two messages share is the first one's.
    Cycles sent_from = 0, sent_until = 0;
    // Before that: for its card's side to be free, and then for the receiver's.
    Cycles waited_out = 0, waited_in = 0;
  };
  struct SideCounters {
    std::int64_t bytes = 0, messages = 0;  // on the wire
  };
  struct PortCounters {
    SideCounters sent, received;
  };

  // At most `messages_max` for a card, and from it, are on their way. Card c is box first_card + c of the
  // wakes, and is woken for its deliveries; the wakes outlive the network.
  CardNetwork(const NetworkSizes& sizes, std::size_t messages_max, std::size_t first_card,
              CardWakes& wakes);

  void reset();
  // Of a card: what it sends. The network is to be stepped in the cycle after.
  Fifo<NetworkMessage>& inject(int card) { return ports_[static_cast<std::size_t>(card)].inject; }
  // To a card, in order of time.
  Ring<Delivery>& deliveries(int card) { return ports_[static_cast<std::size_t>(card)].deliveries; }
  // Sends what is seen at `now`. Returns when it next has something to do.
  Cycles step(Cycles now);
  // The first cycle in which something is seen that has not been sent; kNever: there is none.
  Cycles next_seen() const;

  const PortCounters& counters(int card) const {
    return ports_[static_cast<std::size_t>(card)].counters;
  }
  // Cycles that the wire bytes so far take, begun ones counted whole.
  Cycles busy_cycles(const SideCounters& side) const {
    return sizes_.cycles_of_byte.ceil_of(side.bytes);
  }

 private:
  // A point in time: `part` / denominator of cycles_of_byte behind the cycle.
  struct WireTime {
    Cycles cycle = 0;
    std::int64_t part = 0;
    friend auto operator<=>(const WireTime&, const WireTime&) = default;
  };
  struct Port {
    explicit Port(std::size_t messages) : inject(messages), deliveries(messages) {}
    Fifo<NetworkMessage> inject;
    Ring<Delivery> deliveries;
    WireTime send_free, receive_free;
    PortCounters counters;
  };

  void send(const NetworkMessage& message, Cycles now);
  WireTime after(WireTime time, std::int64_t wire_bytes) const;

  const NetworkSizes sizes_;
  const std::size_t first_card_;
  CardWakes& wakes_;
  std::vector<Port> ports_;
};

}  // namespace tessera::engines
