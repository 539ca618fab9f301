// The bandwidth controller of a group: whose request goes to the channel next.
//
//   core 0's requests ─┐
//   core 1's requests ─┤ a slice of the channel's time each ─► channel
//   ...                │
//   broadcasts ────────┘ in the slices of all their members
//
// Every core of the card that may ask here has a weight. A request costs the channel's time that it is
// expected to take; what it took besides is charged when that is known (correct()).
//
// Dynamic: cores that ask have slices in turn, slice_cycles * weight of the channel's time each. A core
// that asks for nothing is passed over. A request that begins within its slice ends in it or beyond, and
// what is beyond is missing from the slices that follow. So of k cores that always ask, with equal
// weights and requests of c cycles, each has sent after r turns
//
//   ceil(r * slice_cycles / c) requests
//
// which is 1 / k of the channel up to a slice and a request. A broadcast goes in the slice of any of its
// members, before what the member wants for itself, and is charged to all of them in equal parts: it has
// the slices of all its members together, which is the whole channel where all that ask take part, and
// takes nothing from the others (as long as broadcasts have the same members or none in common).
//
// Asks that can wait (kernels, which are fetched far ahead, where the architecture's arbitration is
// kernels_last) go while nothing else that there is room for asks, in turns and slices of their own: else what
// a core asks for at once would give it slices for what can wait. Where cores
// have no fixed parts they do not go either while a write has been at the channel for slice_cycles or longer:
// the channel writes when nobody reads, and reads that can wait would keep it from that.
//
// Fixed: core i owns weight(i) / (sum of all weights) of the channel whether or
// not others use theirs. A request of c cycles that comes at t, or behind the one before it, begins its
// part at t, owns it until
//
//   t + ceil(c * (sum of all weights) / (weights of its cores))
//
// and goes to the channel c cycles before that, in the last slice of its own: alone on a quiet channel
// its last byte moves when a channel of that fraction of the speed would move it. Unused time is not
// kept. A broadcast begins when the parts of all its members are free, and has their sum. What can wait
// begins a part while nothing else of its core, or of its members, asks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "engines/card_memory/card_request.h"
#include "engines/fifo.h"

namespace tessera::engines {

struct BandwidthSizes {
  Cycles slice_cycles = 64;  // at least 1
  bool dynamic = true;
  // By core of the card, at most kCoresMax; 0: may not ask here.
  std::vector<std::int64_t> weights;
};

class BandwidthController {
 public:
  struct Ask {
    CoreSet cores = 0;  // who pays; several: a broadcast
    Cycles cost = 1;    // expected time of the channel, at least 1
    bool write = false;
    bool can_wait = false;
    std::uint32_t ticket = 0;
  };
  // What the channel has room for.
  struct Room {
    bool read = true, write = true;
  };

  // At most `asks_max` wait at a time.
  BandwidthController(const BandwidthSizes& sizes, std::size_t asks_max);

  void reset();
  void add(const Ask& ask, Cycles now);
  // Takes what goes to the channel next; nothing where nothing may go at `now`.
  std::optional<Ask> take(Cycles now, const Room& room);
  // When something may go that may not at `now`, for which there is room; kNever if only a new ask or
  // room can change that.
  Cycles next(Cycles now) const;
  // The channel took so many cycles more for a request than its cost, or fewer.
  void correct(CoreSet cores, bool can_wait, Cycles cycles);
  // The oldest write that the channel took is complete.
  void written();

  std::size_t waiting() const { return waiting_; }
  // Of the channel's time, charged to a core so far.
  Cycles charged(int core) const { return accounts_[static_cast<std::size_t>(core)].charged; }
  // How long a request owns the fixed parts of its cores.
  Cycles window_cycles(CoreSet cores, Cycles cost) const;

 private:
  struct Waiting {
    Ask ask;
    Cycles since = 0;
  };
  struct Account {
    explicit Account(std::size_t asks) : own{Ring<Waiting>(asks), Ring<Waiting>(asks)} {}
    std::int64_t weight = 0;
    std::array<Ring<Waiting>, 2> own;  // asks of this core alone: by can_wait
    std::array<Cycles, 2> left{};      // of its slice, by can_wait; below 0 what it has used ahead
    Cycles free_at = 0;                // its fixed part
    Cycles charged = 0;
  };
  struct Choice {
    bool broadcast = false;
    bool can_wait = false;
    std::size_t at = 0;  // in broadcasts_, or a core
  };

  bool any_fits(bool can_wait, const Room& room) const;
  std::optional<Choice> next_of(std::size_t core, const Room& room) const;
  bool asks(std::size_t core) const;
  bool asks_at_once(CoreSet cores) const;
  std::optional<Choice> choose_slice(const Room& room);
  std::optional<Choice> choose_part(Cycles now, const Room& room) const;
  std::optional<Choice> pass_turn(const Room& room);
  void give_slices(const Room& room, std::int64_t slices);
  Cycles begin_of(const Waiting& waiting) const;
  Cycles due_of(const Waiting& waiting) const;
  Waiting remove(const Choice& choice);
  void charge(CoreSet cores, bool can_wait, Cycles cycles);
  // Those that have something waiting of that kind, alone or as members.
  CoreSet asking(bool can_wait) const { return alone_[can_wait] | members_[can_wait]; }
  // Of the kind that is looked at.
  Cycles left_of(std::size_t core) const { return accounts_[core].left[serves_late_]; }
  void set_left(std::size_t core, bool can_wait, Cycles left);

  const BandwidthSizes sizes_;
  std::int64_t all_weights_ = 0;
  std::vector<Account> accounts_;
  std::array<std::vector<Waiting>, 2> broadcasts_;  // by can_wait, in order of arrival
  // Most cores ask for nothing and owe nothing; only the others are looked at: those with something in `own`, and
  // the members of broadcasts, by can_wait; those whose `left` is not 0.
  std::array<CoreSet, 2> alone_{}, members_{};
  std::array<CoreSet, 2> uneven_{};
  std::deque<Cycles> writes_;  // at the channel: when it took each
  bool serves_late_ = false;   // take() looks at what can wait
  // The core whose slice it is, of asks at once and of those that can wait: these go on where they were.
  std::array<std::size_t, 2> turn_{};
  std::size_t waiting_ = 0;
};

}  // namespace tessera::engines
