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
#pragma once

#include <cstdint>
#include <memory>
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
  // The part of each port that a lane has, for at most so many messages; with nothing of it on its way. Where
  // there are several lanes none has a part before.
  void set_lane(std::uint32_t lane, const Ratio& part, std::size_t messages_max);
  // From a group to groups of one other card, on the lane of its program. The network is to be stepped in
  // the cycle after.
  void send(int group, const CardMessage& message, Cycles now);
  // To a group on a lane, in order of time.
  Ring<Delivery>& deliveries(int group, std::uint32_t lane = 0) {
    return deliveries_[lane * groups() + static_cast<std::size_t>(group)];
  }
  int lanes() const { return sizes_.lanes; }
  // Returns when it next has something to do.
  Cycles step(Cycles now);

  // A whole result from card to card, which no unit answers; where there is one lane. At most one of each
  // number is on its way, below 2^32, and at most `messages_max` are given in a cycle.
  void send_result(int from, int to, std::int64_t bytes, std::uint32_t number, Cycles now);
  struct ResultDelivery {
    Cycles at = 0;
    std::uint32_t number = 0;
    int to = 0;
  };
  // Results whose last byte comes at a known time, in the order in which that was known; taken by this.
  std::vector<ResultDelivery> take_results() { return std::exchange(results_, {}); }

  const CardNetwork& network() const { return *networks_[0]; }  // where there is one lane
  std::string describe() const;

 private:
  std::size_t groups() const {
    return static_cast<std::size_t>(sizes_.cards) * static_cast<std::size_t>(groups_of_card_);
  }
  void take_deliveries(std::uint32_t lane);

  const NetworkSizes sizes_;
  const int groups_of_card_;
  const std::size_t messages_max_;
  CardWakes& wakes_;
  CardWakes cards_;  // deliveries are taken when they are known, and nobody is woken by these
  std::vector<std::unique_ptr<CardNetwork>> networks_;  // of each lane; null: it has no part
  std::vector<CardMessage> messages_;                   // by tag
  std::vector<std::uint32_t> free_;
  std::vector<Ring<Delivery>> deliveries_;  // lanes x groups
  std::vector<ResultDelivery> results_;
};

}  // namespace tessera::engines
