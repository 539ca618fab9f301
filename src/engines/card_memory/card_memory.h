// The memory of a card, or of several: the load/save units of all groups, their memories, the ring of
// each card and the network between them, wired.
//
//             ┌──────── group 0 ───────┐      ┌──────── group 1 ───────┐
//   memory 0 ─ load/save unit ─ cores  │      memory 1 ─ unit ─ cores  │   ...
//             └───────────┬────────────┘      └───────────┬────────────┘
//                         └──────────► ring ──────────────┴──────► ... back to group 0
//                         └──────────► network ⇄ the other cards
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_waits.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/group_ring.h"
#include "engines/card_memory/load_save_unit.h"
#include "engines/card_memory/memory_port.h"

namespace tessera::engines {

class CardMemory {
 public:
  // One memory and one set of ports a group. Ports and memories outlive the card's memory. The
  // frames of `ring` and `network` are those of the units; a ring has the groups of a card, and the
  // network the cards.
  CardMemory(const UnitSizes& sizes, const RingSizes& ring, const NetworkSizes& network,
             const std::vector<std::vector<CorePort>>& ports,
             const std::vector<MemoryPort*>& memories);

  void reset();
  // A request was pushed into a port of the group in the cycle before `when`.
  void wake(int group, Cycles when) { wakes_.wake(static_cast<std::size_t>(group), when); }
  // A whole result from card to card (NetworkStations::send_result).
  void send_result(int from, int to, std::int64_t bytes, std::uint32_t number, Cycles now) {
    wakes_.wake(wakes_.size() - 1, network_->send_result(from, to, bytes, number, now));
  }
  Cycles next() const { return wakes_.earliest(); }
  // Steps the boxes that are due at `now`. Returns when the next one is, without what wakes it until
  // then.
  Cycles step(Cycles now);
  // The same with the boxes in this order (a permutation of boxes()), which changes nothing.
  Cycles step(Cycles now, std::span<const std::size_t> order);
  std::size_t boxes() const { return wakes_.size(); }

  LoadSaveUnit& unit(int group) { return *units_[static_cast<std::size_t>(group)]; }
  // Null where a card has one group.
  GroupRing* ring(int card = 0) {
    return rings_.empty() ? nullptr : rings_[static_cast<std::size_t>(card)].get();
  }
  // Null where there is one card.
  NetworkStations* network() { return network_.get(); }
  // ---- programs that share the cards; as of the units, rings and network ----

  // A program has of each link of a card's ring what it has of that card's cores, and of the network's ports
  // the least of these parts.
  void place(const CardPlaces& places, std::int64_t weight);
  void remove(const CardPlaces& places);
  void stop(const CardPlaces& places, Cycles now);
  // No request of it is on its way, or waits at a port.
  bool quiet(const CardPlaces& places) const;
  // What is on its way waits for members of its share, and nothing else.
  bool stuck(const CardPlaces& places, Cycles now) const;
  void settle(const CardPlaces& places);
  // Zeros into the first so many bytes of its range in each of its memories, until none of them fills.
  void fill(const CardPlaces& places, std::int64_t bytes, Cycles now);
  bool fills(const CardPlaces& places) const;
  bool has_exceptions() const;
  std::vector<MemoryException> take_exceptions();

  // When a program has its channels and wires, and which of its tasks for.
  WireTrace& trace() { return trace_; }
  // What its cores have waited for.
  CardWaits& waits() { return waits_; }

  // Of the lowest group that has one.
  std::optional<ShareFault> fault() const;
  std::string describe() const;

 private:
  void step_box(std::size_t box, Cycles now);
  void place_lanes(const CardPlaces& places, std::size_t outstanding);

  const int groups_of_card_, cores_of_group_;
  const std::vector<MemoryPort*> memories_;
  CardWakes wakes_;  // units, memories, rings, network
  WireTrace trace_;
  CardWaits waits_;
  std::vector<std::unique_ptr<GroupRing>> rings_;  // of each card
  std::unique_ptr<NetworkStations> network_;
  std::vector<std::unique_ptr<LoadSaveUnit>> units_;
  std::vector<std::size_t> order_;
  std::vector<bool> memory_stepped_;
  std::vector<std::vector<CorePort>> ports_;  // of each group
};

}  // namespace tessera::engines
