// What groups of different cards send each other, over the network between the cards.
//
//   unit of group 1 ─┐                                      ┌─► unit of group 4
//   unit of group 2 ─┴─► port of card 0 ─► port of card 1 ──┴─► unit of group 6
//
// A message goes to groups of one card and crosses the network once; all of them have it when its last
// byte is there. Groups have the numbers of all cards: those of card c begin at c * groups of a card.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engines/card_memory/card_network.h"
#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/fifo.h"

namespace tessera::engines {

class NetworkStations {
 public:
  struct Delivery {
    Cycles at = 0;  // its last byte is there; later than the cycle in which this is known
    CardMessage message;
  };

  // At most `messages_max` are on their way. Group g is box g of the wakes, which outlive the stations,
  // and is woken for its deliveries.
  NetworkStations(const NetworkSizes& sizes, int groups_of_card, std::size_t messages_max,
                  CardWakes& wakes);

  void reset();
  // From a group to groups of one other card. The network is to be stepped in the cycle after.
  void send(int group, const CardMessage& message, Cycles now);
  // To a group, in order of time.
  Ring<Delivery>& deliveries(int group) { return deliveries_[static_cast<std::size_t>(group)]; }
  // Returns when it next has something to do.
  Cycles step(Cycles now);

  // A whole result from card to card, which no unit answers. At most one of each number is on its way, below
  // 2^32, and at most `messages_max` are given in a cycle.
  void send_result(int from, int to, std::int64_t bytes, std::uint32_t number, Cycles now);
  struct ResultDelivery {
    Cycles at = 0;
    std::uint32_t number = 0;
    int to = 0;
  };
  // Results whose last byte comes at a known time, in the order in which that was known; taken by this.
  std::vector<ResultDelivery> take_results() { return std::exchange(results_, {}); }

  const CardNetwork& network() const { return network_; }
  std::string describe() const;

 private:
  const int groups_of_card_;
  const std::size_t messages_max_;
  CardWakes& wakes_;
  CardWakes cards_;  // deliveries are taken when they are known, and nobody is woken by these
  CardNetwork network_;
  std::vector<CardMessage> messages_;  // by tag
  std::vector<std::uint32_t> free_;
  std::vector<Ring<Delivery>> deliveries_;  // by group
  std::vector<ResultDelivery> results_;
};

}  // namespace tessera::engines
