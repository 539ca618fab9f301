// The memory of a card: the load/save units of its groups, their memories and the ring, wired.
//
//             ┌──────── group 0 ───────┐      ┌──────── group 1 ───────┐
//   memory 0 ─ load/save unit ─ cores  │      memory 1 ─ unit ─ cores  │   ...
//             └───────────┬────────────┘      └───────────┬────────────┘
//                         └──────────► ring ──────────────┴──────► ... back to group 0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/group_ring.h"
#include "engines/card_memory/load_save_unit.h"
#include "engines/card_memory/memory_port.h"

namespace tessera::engines {

class CardMemory {
 public:
  // One memory and one set of ports a group. Ports, memories and waker outlive the card's memory. The
  // frames of `ring` are those of the units; it has as many groups as there are memories.
  CardMemory(const UnitSizes& sizes, const RingSizes& ring,
             const std::vector<std::vector<CorePort*>>& ports,
             const std::vector<MemoryPort*>& memories, CoreWaker& cores);

  void reset();
  // A request was pushed into a port of the group at `now`.
  void wake(int group, Cycles now) { wakes_.wake(static_cast<std::size_t>(group), now + 1); }
  // Steps the boxes that are due at `now`. Returns when the next one is, without what wakes it until
  // then.
  Cycles step(Cycles now);
  // The same with the boxes in this order (a permutation of boxes()), which changes nothing.
  Cycles step(Cycles now, std::span<const std::size_t> order);
  std::size_t boxes() const { return wakes_.size(); }

  LoadSaveUnit& unit(int group) { return *units_[static_cast<std::size_t>(group)]; }
  // Null where there is one group.
  GroupRing* ring() { return ring_.get(); }
  // Of the lowest group that has one.
  std::optional<ShareFault> fault() const;
  std::string describe() const;

 private:
  void step_box(std::size_t box, Cycles now);

  const std::vector<MemoryPort*> memories_;
  CardWakes wakes_;  // units, memories, ring
  std::unique_ptr<GroupRing> ring_;
  std::vector<std::unique_ptr<LoadSaveUnit>> units_;
  std::vector<std::size_t> order_;
  std::vector<bool> memory_stepped_;
};

}  // namespace tessera::engines
