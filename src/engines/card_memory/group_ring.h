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
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/frame.h"
#include "engines/fifo.h"

namespace tessera::engines {

struct RingSizes {
  int groups = 4;                     // 1 to kGroupsMax
  std::int64_t bytes_per_cycle = 64;  // of a link
  Cycles hop_cycles = 4;              // at least 1
  FrameSizes frame{};

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
  // Of group g: what it sends, never to itself. Room for transfers_max. The ring is to be stepped in
  // the cycle after.
  Fifo<CardMessage>& inject(int group) { return inject_[static_cast<std::size_t>(group)]; }
  // To group g, in order of time.
  Ring<Delivery>& deliveries(int group) { return deliveries_[static_cast<std::size_t>(group)]; }

  // Begins the frames that can begin at `now`. Returns when it next has something to do, and is to be
  // stepped then.
  Cycles step(Cycles now);

  const RingSizes& sizes() const { return sizes_; }
  // Of the link from group g to the next.
  const LinkCounters& counters(int group) const {
    return links_[static_cast<std::size_t>(group)].counters;
  }
  std::string describe() const;

 private:
  struct Transfer {
    CardMessage message;
    std::int64_t frames = 0;
    Cycles whole_cycles = 0, last_cycles = 0;  // of a frame, of the last
    int hops = 0;                              // until its last group
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
    LinkCounters counters;
  };

  void begin_transfer(int group, const CardMessage& message);
  void come(int link, std::uint32_t transfer, std::int64_t frames);
  void send_frame(int link, Cycles now);
  Passage& passage(std::uint32_t transfer, int hop) {
    return passages_[transfer * static_cast<std::size_t>(sizes_.groups) +
                     static_cast<std::size_t>(hop)];
  }
  Link& link(int group) { return links_[static_cast<std::size_t>(group)]; }

  const RingSizes sizes_;
  const std::size_t first_group_;
  CardWakes& wakes_;
  std::vector<Fifo<CardMessage>> inject_;
  std::vector<Ring<Delivery>> deliveries_;
  std::vector<Link> links_;
  std::vector<Transfer> transfers_;
  std::vector<Passage> passages_;  // transfers x groups
  std::vector<std::uint32_t> free_;
};

}  // namespace tessera::engines
