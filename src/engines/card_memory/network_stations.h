// What groups of different cards send each other, over the network between the cards.
//
//   unit of group 1 ─┐                                      ┌─► unit of group 4
//   unit of group 2 ─┴─► port of card 0 ─► port of card 1 ──┴─► unit of group 6
//
// A message goes to groups of one card and crosses the network once; all of them have it when its last
// byte is there. Groups have the numbers of all cards: those of card c begin at c * groups of a card.
//
// Lanes: programs that share the cards have fixed parts of each port, whether or not others use theirs. With
// p of q parts a lane is a network of p / q of the speed, with the same latency, and what another lane does
// changes nothing.
//
// Cards in several processes (split()): each process has all ports, and passes on what its own cards send, with
// the cycle. So all of them know when each message arrives, since that follows from the messages and their order.
// The network is then behind the clock: what is sent in a cycle is worked on when the messages of all cards up to
// that cycle are there, and nothing that was not known arrives until lookahead() cycles later.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/card_memory/card_network.h"
#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_waits.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/wire_trace.h"
#include "engines/fifo.h"

namespace tessera::engines {

class NetworkStations {
 public:
  struct Delivery {
    Cycles at = 0;  // its last byte is there; later than the cycle in which this is known
    CardMessage message;
  };

  // At most `messages_max` are on their way. Group g is box g of the wakes, which outlive the stations,
  // and is woken when it has unpacked its deliveries.
  NetworkStations(const NetworkSizes& sizes, int groups_of_card, std::size_t messages_max,
                  CardWakes& wakes);

  void reset();
  // The part of each port that a lane has, for at most so many messages; with nothing of it on its way. Where
  // there are several lanes none has a part before.
  void set_lane(std::uint32_t lane, const Ratio& part, std::size_t messages_max);
  // From a group to groups of one other card, on the lane of its program. Returns when the network is to be
  // stepped; kNever where cards are in several processes.
  Cycles send(int group, const CardMessage& message, Cycles now);
  // To a group on a lane, in order of time.
  Ring<Delivery>& deliveries(int group, std::uint32_t lane = 0) {
    return deliveries_[lane * groups() + static_cast<std::size_t>(group)];
  }
  int lanes() const { return sizes_.lanes; }
  // Returns when it next has something to do.
  Cycles step(Cycles now);

  // A whole result from card to card, which no unit answers; where there is one lane. At most one of each
  // number is on its way, below 2^32, and at most `messages_max` are given in a cycle. Returns as send() does.
  Cycles send_result(int from, int to, std::int64_t bytes, std::uint32_t number, Cycles now);
  struct ResultDelivery {
    Cycles at = 0;
    std::uint32_t number = 0;
    int to = 0;
  };
  // Results whose last byte comes at a known time, in the order in which that was known; taken by this.
  std::vector<ResultDelivery> take_results() { return std::exchange(results_, {}); }

  // ---- cards in several processes; with one lane ----

  // From now on these cards (by bit) are here and the others are not.
  void split(std::uint32_t cards_here);
  // A message as it left its card.
  struct Departure {
    Cycles at = 0;  // the cycle in which it was given; the network sees it in the next
    bool is_result = false;
    CardMessage message = {};  // of a result its bytes alone
    int from_card = 0, to_card = 0;
    std::uint32_t number = 0;  // of a result
    StridedRuns grid = {};     // of the message's request, as it was then
  };
  // Those of the cards that are here, since the last call.
  std::vector<Departure> take_departures() { return std::exchange(departures_, {}); }
  // One of another process. Those of a card come in its order. The grid that its message points to outlives the answer.
  void arrive(const Departure& departure);
  // Whether its card can have another one on its way.
  bool can_arrive(const Departure& departure) const {
    return networks_[0]->inject(departure.from_card).can_push(departure.at);
  }
  // Whether there is room for another one.
  bool has_room() const { return !free_.empty(); }
  // Works on all that was given before cycle `given_before`, of all cards. Returns the first arrival that is known
  // by that and was not before, wherever it is.
  Cycles settle(Cycles given_before);
  // What is given in cycle t changes nothing elsewhere before cycle t + lookahead().
  Cycles lookahead() const { return 1 + sizes_.quiet_cycles(0) + sizes_.frame.unpack_cycles; }

  // Of a card's port, all lanes together, since the last reset.
  CardNetwork::PortCounters counters(int card) const;
  // Cycles of the whole port that the wire bytes take, begun ones counted whole.
  Cycles busy_cycles(const CardNetwork::SideCounters& side) const {
    return sizes_.cycles_of_byte.ceil_of(side.bytes);
  }
  std::string describe() const;
  // What the ports do goes there, if a program wants it; `trace` outlives the stations.
  void trace_to(WireTrace& trace) { trace_ = &trace; }
  // How long messages wait for ports goes there; of cards in several processes, those to a card here.
  void count_waits_in(CardWaits& waits) { waits_ = &waits; }

 private:
  std::size_t groups() const {
    return static_cast<std::size_t>(sizes_.cards) * static_cast<std::size_t>(groups_of_card_);
  }
  void take_deliveries(std::uint32_t lane);
  void add_to_trace(const CardNetwork::Delivery& delivery);
  void count_waits(const CardNetwork::Delivery& delivery);
  void inject(int from, int to, const CardMessage& message, Cycles now);
  bool is_here(int card) const { return !is_split_ || (cards_here_ >> card & 1) != 0; }

  const NetworkSizes sizes_;
  const int groups_of_card_;
  const std::size_t messages_max_;
  CardWakes& wakes_;
  WireTrace* trace_ = nullptr;
  CardWaits* waits_ = nullptr;
  CardWakes cards_;  // deliveries are taken when they are known, and nobody is woken by these
  std::vector<std::unique_ptr<CardNetwork>> networks_;  // of each lane; null: it has no part
  std::vector<CardNetwork::PortCounters> past_;         // by card, of lanes as they were before
  std::vector<CardMessage> messages_;                   // by tag
  std::vector<std::uint32_t> free_;
  std::vector<Ring<Delivery>> deliveries_;  // lanes x groups
  std::vector<ResultDelivery> results_;
  bool is_split_ = false;
  std::uint32_t cards_here_ = 0;
  std::vector<Departure> departures_;
  Cycles first_arrival_ = kNever;  // of those that settle() has learnt of
};

}  // namespace tessera::engines
