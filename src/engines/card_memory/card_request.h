// What a core asks of the card's memory, and what of it travels between groups.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "arch/dram_request.h"
#include "base/quantity.h"
#include "engines/fifo.h"

namespace tessera::engines {

inline constexpr int kGroupsMax = 16;
inline constexpr int kCoresMax = 64;  // of a card, so that a set of them is a word

// A set of cores of a card: bit group * (cores of a group) + core.
using CoreSet = std::uint64_t;
// A set of groups.
using GroupSet = std::uint32_t;

// Who wants the same bytes. Each member issues the requests of a share in the same order.
struct Share {
  std::uint32_t number = 0;    // 0: the request is not shared
  std::uint32_t sequence = 0;  // which of the share's requests, from 0
  CoreSet members = 0;
  bool same_request(const Share& other) const {
    return number == other.number && sequence == other.sequence;
  }
};

struct CardRequest {
  DramRequest dram{};  // its grid outlives the request's completion
  int home = 0;        // the group whose channel holds the bytes
  Share share{};       // of a read
  std::int64_t bytes() const { return dram.runs * dram.bytes; }
};

// Wakes what is outside the card's memory.
class CoreWaker {
 public:
  virtual ~CoreWaker() = default;
  // `owner` is stepped at `when`, or earlier if something else wakes it.
  virtual void wake(std::size_t owner, Cycles when) = 0;
};

// One requester's side of a load/save unit. Completions are times, in the order of the requests: a read
// has its last byte at the core then, a write is in its channel.
struct CorePort {
  // Room for as many requests as the owner may have on their way.
  CorePort(std::size_t its_owner, int its_core, std::size_t outstanding)
      : owner(its_owner), core(its_core), requests(outstanding), completions(outstanding) {}

  std::size_t owner;  // for the waker
  int core;           // within its group; a core may have several ports, which share its wires
  Fifo<CardRequest> requests;
  Ring<Cycles> completions;      // due at the time they hold
  std::size_t in_service = 0;    // accepted, and their completions not known yet
  bool wants_accept = false;     // wake the owner when a request is accepted
  std::size_t accepted_now = 0;  // requests accepted in cycle accepted_at
  Cycles accepted_at = -1;
  // Of requests that are complete: how long they waited for other members of their share in the group.
  Cycles share_cycles = 0;
  // Requests accepted before `now` whose completion was not yet taken.
  std::size_t seen(Cycles now) const {
    return completions.size() + in_service - (accepted_at == now ? accepted_now : 0);
  }
  std::int64_t bytes_read = 0, bytes_written = 0;
};

// What goes around the ring.
struct CardMessage {
  enum class Kind : std::uint8_t {
    kRequest,
    kData,
    kDone
  };  // a write's request has its data with it
  Kind kind = Kind::kRequest;
  int from = 0;
  GroupSet to = 0;
  std::int64_t bytes = 0;  // of data
  CardRequest request{};   // of kRequest
  CoreSet cores = 0;       // who asks
  // By group: the number under which it finds its requesters again.
  std::array<std::uint32_t, kGroupsMax> tickets{};
};

}  // namespace tessera::engines
