// A requester's side of the DRAM: its requests (arch/dram_request.h) and their completions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/dram_request.h"
#include "base/quantity.h"
#include "engines/fifo.h"
#include "engines/wake_table.h"

namespace tessera::engines {

// One requester's side of the memory. Completions are times, in order.
struct DramPort {
  // Room for as many requests as the owner may have on their way.
  DramPort(Box box, std::size_t outstanding)
      : owner(box), requests(outstanding), completions(outstanding) {}

  Box owner;
  WakeTable* wakes = nullptr;          // of the owner's core; outlives the port's use
  const bool* channel_full = nullptr;  // then it wakes by itself and needs no waking
  Fifo<DramRequest> requests;
  Ring<Cycles> completions;      // of accepted requests; due at the time they hold
  std::size_t in_service = 0;    // accepted, and their completions not known yet
  Cycles wake_cycles = 0;        // after a push is seen, within which the channel is woken
  bool wants_accept = false;     // wake the owner when a request is accepted
  std::size_t accepted_now = 0;  // requests accepted in cycle accepted_at
  Cycles accepted_at = -1;
  // Requests accepted before `now` whose completion was not yet taken.
  std::size_t seen(Cycles now) const {
    return completions.size() + in_service - (accepted_at == now ? accepted_now : 0);
  }
  std::int64_t bytes_read = 0, bytes_written = 0;  // whole bursts; on a card the bytes asked for
  // On a card, of requests that are complete: how long they waited for other cores of their share.
  Cycles share_cycles = 0;
};

}  // namespace tessera::engines
