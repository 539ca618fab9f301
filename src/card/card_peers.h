// Cards of one program in several processes: who has which, and how they reach each other.
#pragma once

#include <cstddef>
#include <vector>

#include "base/result.h"

namespace tessera::card {

// The other processes, seen from one of them. One thread at a time, that of the card.
class CardPeers {
 public:
  virtual ~CardPeers() = default;
  using Batches = std::vector<std::vector<std::byte>>;  // by process; a process has none for itself
  // Gives each other process its batch (card/peer_batch.h) and takes those that they have for this one, of the same
  // number of exchange; waits for them. The error names the process that has ended, or why all do.
  virtual Result<Batches> exchange(Batches own) = 0;
};

// Which cards of a program are here. Cores run here; those of other cards run in the other processes, at the same
// modelled time.
struct CardsHere {
  std::vector<int> process_of_card;  // by card of the placement, from 0 on without a gap
  int process = 0;                   // this one
  CardPeers* peers = nullptr;        // outlives the card; null: all cards are here
  int processes() const {
    int last = 0;
    for (const int one : process_of_card) last = one > last ? one : last;
    return last + 1;
  }
};

}  // namespace tessera::card
