// What a load/save unit sees of its group's memory.
#pragma once

#include <cstdint>

#include "arch/dram_request.h"
#include "base/quantity.h"

namespace tessera::engines {

class MemoryPort {
 public:
  struct Completion {
    Cycles at = 0;  // the last byte is at the unit, or written
    std::uint32_t ticket = 0;
  };

  virtual ~MemoryPort() = default;
  virtual void reset() = 0;
  // Whether a request may be pushed at `now`. Room that is made in a cycle is seen in the next.
  virtual bool room(bool write, Cycles now) const = 0;
  // Seen by the memory in the cycle after. Returns when it is to be stepped, kNever if it is anyway.
  virtual Cycles push(Cycles now, const DramRequest& request, std::uint32_t ticket) = 0;
  // The channel's time that a request is expected to take, at least 1.
  virtual Cycles cost(const DramRequest& request) const = 0;
  // From the end of a request's time of a quiet channel to its completion.
  virtual Cycles latency() const = 0;
  // The earliest completion that is known and was not taken, or null. One becomes known in a cycle
  // before its time.
  virtual const Completion* completion() const = 0;
  virtual void take_completion() = 0;
  // Returns when it next has something to do.
  virtual Cycles step(Cycles now) = 0;
};

}  // namespace tessera::engines
