// The one-way ring between the groups of a card.
//
//   group 0 ─link 0─► group 1 ─link 1─► group 2 ─link 2─► group 3 ─link 3─► group 0
//
// A transfer of n bytes is frames (frame.h). A frame holds a link for ceil(its wire bytes /
// bytes_per_cycle) cycles. Its head is hop_cycles later in the next group, which sends it on at once,
// before the rest is there (cut-through: links are equally fast), and takes a copy at the same time
// where it is one of those that the transfer is for. With nothing else on the ring, a transfer that
// begins at t has its last byte at the h-th group of its way at
//
//   t + sum of its frames' cycles + h * hop_cycles                                (quiet_cycles)
//
// Transfers that want a link at once take turns, a frame each: one that comes queues behind those that
// wait, and after a frame behind them again. So k transfers have 1 / k of a link each, wherever they
// come from. What waits at a link is held in its group; requests on their way bound it.
//
// Lanes: programs that share a card have fixed parts of each link, whether or not others use theirs. With
// p of q parts a frame holds its lane for ceil(its wire bytes * q / (bytes_per_cycle * p)) cycles, and
// what another lane does changes nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ratio.h"
#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_waits.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/frame.h"
#include "engines/card_memory/wire_trace.h"
#include "engines/fifo.h"

namespace tessera::engines {

struct RingSizes {
  int groups = 4;                     // 1 to kGroupsMax
  std::int64_t bytes_per_cycle = 64;  // of a link
  Cycles hop_cycles = 4;              // at least 1
  FrameSizes frame{};
  int lanes = 1;

  // Cycles that the frames of `bytes` hold a link.
  Cycles link_cycles(std::int64_t bytes) const;
  // From the begin of a transfer on its first link to its last byte `hops` groups on, on a quiet ring.
  Cycles quiet_cycles(std::int64_t bytes, int hops) const;
  // From a group to another: 0 to groups - 1.
  int hops(int from, int to) const { return (to - from + groups) % groups; }
};

class GroupRing {
 public:
  struct Delivery {
    Cycles at = 0;  // its last byte is there; later than the cycle in which this is known
    CardMessage message;
  };
  struct LinkCounters {
    Cycles busy = 0;
    std::int64_t bytes = 0;  // on the wire
    std::int64_t frames = 0, transfers = 0;
  };

  // At most `transfers_max` are on their way. Group g is box first_group + g of the wakes, and is woken
  // for its deliveries; the wakes outlive the ring.
  GroupRing(const RingSizes& sizes, std::size_t transfers_max, std::size_t first_group,
            CardWakes& wakes);

  void reset();
  // The part of each link that a lane has, for at most so many transfers; with nothing of it on the ring.
  // Where there are several lanes none has a part before.
  void set_lane(std::uint32_t lane, const Ratio& part, std::size_t transfers_max);
  // Of group g: what it sends, never to itself. Room for transfers_max. The ring is to be stepped in
  // the cycle after.
  Fifo<CardMessage>& inject(int group) { return inject_[static_cast<std::size_t>(group)]; }
  // To group g on a lane, in order of time.
  Ring<Delivery>& deliveries(int group, std::uint32_t lane = 0) {
    return deliveries_[lane * groups() + static_cast<std::size_t>(group)];
  }

  // Begins the frames that can begin at `now`. Returns when it next has something to do, and is to be
  // stepped then.
  Cycles step(Cycles now);

  const RingSizes& sizes() const { return sizes_; }
  // Of the link from group g to the next; busy cycles of it as a whole.
  const LinkCounters& counters(int group) const {
    return counters_[static_cast<std::size_t>(group)];
  }
  std::string describe() const;
  // What the links do goes there, if a program wants it; `trace` outlives the ring.
  void trace_to(WireTrace& trace) { trace_ = &trace; }
  // How long transfers wait at links goes there: at each, how much later the last frame is through than it would
  // be behind the frame's coming. Together they are what a transfer takes beyond quiet_cycles().
  void count_waits_in(CardWaits& waits) { waits_ = &waits; }

 private:
  struct Transfer {
    CardMessage message;
    std::int64_t frames = 0;
    Cycles whole_cycles = 0, last_cycles = 0;  // of a frame, of the last
    int hops = 0;                              // until its last group
    Cycles quiet_end = 0;  // of its last frame on the link it comes to, if that is free
  };
  // A transfer at a link, by its distance from the sender.
  struct Passage {
    std::int64_t here = 0, sent = 0;  // frames
  };
  struct Head {
    Cycles at = 0;
    std::uint32_t transfer = 0;
  };
  struct Link {
    Link(std::size_t heads, std::size_t transfers) : coming(heads), turns(transfers) {}
    Ring<Head> coming;          // frames on the link before, for this one
    Ring<std::uint32_t> turns;  // transfers with frames here, next first
    Cycles free_at = 0;
  };

  void begin_transfer(int group, const CardMessage& message, Cycles now);
  void come(int link, std::uint32_t transfer, std::int64_t frames);
  void send_frame(int link, std::uint32_t lane, Cycles now);
  Cycles step_lane(std::uint32_t lane, Cycles now);
  Passage& passage(std::uint32_t transfer, int hop) {
    return passages_[transfer * static_cast<std::size_t>(sizes_.groups) +
                     static_cast<std::size_t>(hop)];
  }
  std::size_t groups() const { return static_cast<std::size_t>(sizes_.groups); }
  Link& link(int group, std::uint32_t lane) {
    return links_[lane * groups() + static_cast<std::size_t>(group)];
  }
  void count_frame(int link, bool last, const Transfer& transfer);

  const RingSizes sizes_;
  const std::size_t first_group_;
  CardWakes& wakes_;
  WireTrace* trace_ = nullptr;
  CardWaits* waits_ = nullptr;
  std::vector<Fifo<CardMessage>> inject_;
  std::vector<Ratio> parts_;                // of each lane
  std::vector<Ring<Delivery>> deliveries_;  // lanes x groups
  std::vector<Link> links_;                 // lanes x groups
  std::vector<LinkCounters> counters_;      // of each link
  std::vector<Transfer> transfers_;
  std::vector<Passage> passages_;  // transfers x groups
  std::vector<std::uint32_t> free_;
};

}  // namespace tessera::engines
