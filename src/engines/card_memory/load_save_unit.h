// The load/save unit of a group: between the DMA ports of its cores, the group's memory and the ring.
//
//   core 0 ◄─► port ─┐ unpack ┌─────────┐ home here  ┌────────────┐      ┌────────┐
//   core 1 ◄─► port ─┼──────► │ decoder │ ─────────► │ bandwidth  │ ───► │ memory │
//   ...              │        └────┬────┘ ▲          │ controller │      └───┬────┘
//                    │    pack     │ home │ from     └────────────┘          │
//                    │             ▼ away │ the ring                         │
//                    │             ring ──┘                                  ▼ pack
//                    └◄── a port each, or the broadcast bus to all ◄─── data, also from the ring
//
// Requests and data are frames (frame.h) on every wire. Each core has wires to the unit and from it,
// port_bytes a cycle each, which its ports share. A request is a header, with its data if it is a write.
// One of n wire bytes that is seen at t (the cycle after it was pushed) is decided at
//
//   d = max(wires free, t) + max(1, ceil(n / port_bytes)) + unpack_cycles
//
// Home here: it waits for the controller's word, goes to the memory and is complete there at x; its data,
// or the header that says that it is written, are frames at a = x + pack_cycles. Home elsewhere: a frame
// for the ring is there pack_cycles after d, goes round to its home, is decided there unpack_cycles after
// its last byte, and comes back the same way: a = (last byte back here) + unpack_cycles. Request and data
// make a full round of the ring together. The bytes of a request go on together, when the last of them has
// come. To the core they follow as they come: the last byte is there at
//
//   max(wires free + wire(all frames), a + wire(last frame))
//
// What has its home on another card goes over the network (network_stations.h) in the same way, without a
// ring. Without `needed_bytes_only` each card has all results in the groups of the same place, and members of a
// share meet on their card; without `forward` each group has all, and they meet in their group.
//
// Members of a share (share_decoder.h) meet in their group, and the groups' requests meet again at home:
// one request for all. Its data go over the broadcast bus, broadcast_bytes a cycle, which takes the
// members' wires while they pass, and around the ring in one transfer for all groups, at the same time.
// Without `broadcast` each member gets them over its own wires, one after the other in the order of cores,
// and each group by a transfer of its own. Without `merge` a share means nothing.
//
// Tenants: each core's requests are checked where they are decided, against base and limit of its program,
// its memories and its cores (CardPlaces). One that is outside ends there, is never seen by a memory, and
// is an exception of its program alone. The channel is shared by weight (tenant_bandwidth.h), the decoder's
// table and the ring in fixed parts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engines/card_memory/bandwidth_controller.h"
#include "engines/card_memory/card_request.h"
#include "engines/card_memory/card_waits.h"
#include "engines/card_memory/card_wakes.h"
#include "engines/card_memory/frame.h"
#include "engines/card_memory/group_ring.h"
#include "engines/card_memory/memory_port.h"
#include "engines/card_memory/network_stations.h"
#include "engines/card_memory/share_decoder.h"
#include "engines/card_memory/tenant_bandwidth.h"
#include "engines/card_memory/wire_trace.h"
#include "engines/fifo.h"

namespace tessera::engines {

struct UnitSizes {
  int groups = 4;           // of all cards together; those of a card follow each other
  int cards = 1;            // groups is a multiple of it
  int cores_per_group = 4;  // groups * cores_per_group is at most kCoresMax
  FrameSizes frame{};
  std::int64_t port_bytes = 32;       // a cycle, of a core's wires in each direction
  std::int64_t broadcast_bytes = 64;  // a cycle, of the bus
  std::size_t share_entries = 16;     // of the decoder's table
  bool merge = true, broadcast = true;
  bool kernels_last = false;      // kernels are asked for far ahead, and wait for data
  bool forward = true;            // off: every group has all that its cores ask for
  bool needed_bytes_only = true;  // off: every card has all that its cores ask for
  BandwidthSizes bandwidth{};
};

class LoadSaveUnit {
 public:
  struct WireCounters {
    Cycles busy = 0;
    std::int64_t bytes = 0;  // on the wire
  };
  struct CoreCounters {
    WireCounters to_unit, from_unit;
  };
  struct Counters {
    std::int64_t requests = 0;   // that went to the memory
    std::int64_t merged = 0;     // that did not, because another went for them
    std::int64_t forwarded = 0;  // sent to another group
    WireCounters bus;
  };
  // All outlive the unit. Box `box` of the wakes is the unit, box `memory_box` its memory, box `ring_box`
  // the ring.
  struct Wiring {
    int group = 0;
    std::vector<CorePort> ports;
    MemoryPort* memory = nullptr;
    GroupRing* ring = nullptr;           // of the card; null where it has one group
    NetworkStations* network = nullptr;  // null where there is one card
    CardWakes* wakes = nullptr;
    WireTrace* trace = nullptr;  // null: none is kept
    CardWaits* waits = nullptr;  // likewise
    std::size_t box = 0, memory_box = 0, ring_box = 0, network_box = 0;
  };

  // At most `outstanding_max` requests of all ports of the card are on their way.
  LoadSaveUnit(const UnitSizes& sizes, const Wiring& wiring, std::size_t outstanding_max);

  void reset();
  // Does all that can be done at `now`. Returns when it next has something to do by itself. Whoever
  // pushes a request wakes the unit for the cycle after.
  Cycles step(Cycles now);
  // Whether it is to be stepped in the cycle after one in which the memory was.
  bool wants_room() const { return bandwidth_.waiting() > 0; }

  // ---- programs that share the card ----

  // A program has these cores and weight here from now on, and at most so many requests on their way. Those
  // of its cores that are in this group are placed; nothing of it is on its way. `places` outlives its use.
  void place(const CardPlaces& places, std::int64_t weight, std::size_t outstanding_max);
  // The core of the group has no program any more.
  void remove(const CardPlaces& places);
  // Its requests end from now on without touching a memory, also those that wait for others of a share.
  void stop(std::uint32_t program, Cycles now);
  // Of its requests those that its ports in this group hold or that are on their way. And of them those
  // that wait for other members of their share, here or in other groups.
  std::size_t in_flight(std::uint32_t program) const;
  std::size_t waiting_for_members(std::uint32_t program, Cycles now) const;
  // When its ports are quiet: as new.
  void settle(std::uint32_t program);
  // Writes zeros from the program's base on, as its requests, of which there are no others meanwhile; the
  // bytes are a multiple of kFillBytes. They are in the memory when it fills no more.
  void fill(const CardPlaces& places, std::int64_t bytes, Cycles now);
  bool fills(std::uint32_t program) const;
  static constexpr std::int64_t kFillBytes = 512;  // of a request: nobody waits for a long one
  // Taken out: those since the last call.
  std::vector<MemoryException> take_exceptions() { return std::exchange(exceptions_, {}); }
  bool has_exceptions() const { return !exceptions_.empty(); }

  // Members of a share that do not agree; the unit takes nothing more from their ports.
  std::optional<ShareFault> fault() const;
  const Counters& counters() const { return counters_; }
  // Of a core of the group.
  const CoreCounters& counters(int core) const {
    return wires_[static_cast<std::size_t>(core)].counters;
  }
  // What a program has had of the memory since it was placed, or the last reset.
  struct ProgramCounters {
    Cycles charged = 0;  // of the channel's time
    std::int64_t requests = 0, bytes_read = 0, bytes_written = 0;
  };
  ProgramCounters counters_of(std::uint32_t program) const;
  std::string describe() const;

 private:
  struct Side {  // of a port
    Side(const CorePort& its, std::size_t capacity)
        : port(its.port), core(its.core), places(its.places), done(capacity, kNever) {}
    DramPort* port;
    int core;
    const CardPlaces* places;
    Cycles head_at = kNever;   // when the first of its requests is decided, if known
    CardRequest head;          // that request
    bool refused = false;      // it is outside of what its program may reach
    Share last_share;          // of the last request that had one
    std::vector<Cycles> done;  // by number modulo its size
    std::uint32_t first = 0;   // the oldest request without a completion
    std::uint32_t next = 0;    // the number of the next
    Cycles last = 0;           // its latest completion
  };
  struct Wires {  // of a core
    Cycles to_free = 0, from_free = 0;
    CoreCounters counters;
  };
  // A request of one port, and who waits for an answer: a port, or members of a share.
  struct Member {
    std::uint32_t port = 0, number = 0;
  };
  struct Waiter {
    bool write = false;
    std::int64_t bytes = 0;
    int members = 0;
    std::array<Member, kCoresMax> member{};
    // Of one member. What is behind the members means nothing.
    void set(bool is_write, std::int64_t its_bytes, const Member& first) {
      write = is_write;
      bytes = its_bytes;
      members = 1;
      member[0] = first;
    }
  };
  // A request that has its home here, and the groups that wait for it.
  struct HomeJob {
    CardRequest request{};
    CoreSet cores = 0;
    GroupSet groups = 0;
    std::array<std::uint32_t, kGroupsMax> tickets{};
    Cycles asked = 0, handed = 0, cost = 0;
    bool fill = false;  // nobody waits for an answer
  };
  // Zeros that a program leaves behind.
  struct Fill {
    StridedRuns grid;
    std::int64_t runs = 0, asked = 0, done = 0;
    CoreSet cores = 0;  // that pay
  };
  static constexpr int kFillsOnTheirWay = 4;  // no more than any core has
  struct Outgoing {
    Cycles at = 0;
    CardMessage message;
  };
  template <typename T>
  struct Pool {
    explicit Pool(std::size_t size) : items(size) {
      free.reserve(size);
      clear();
    }
    void clear() {
      free.clear();
      for (std::size_t i = items.size(); i-- > 0;) free.push_back(static_cast<std::uint32_t>(i));
    }
    std::uint32_t take() {
      TESSERA_CHECK(!free.empty(), "more than {} requests", items.size());
      const std::uint32_t ticket = free.back();
      free.pop_back();
      return ticket;
    }
    std::vector<T> items;
    std::vector<std::uint32_t> free;
  };

  static void clear(Side& side);
  void take_memory(Cycles now);
  void take_ring(Cycles now);
  void take_network(Cycles now);
  // A frame from another group, or card.
  void take_message(const CardMessage& message, int from, Cycles now);
  void take_ports(Cycles now);
  void hand_over(Cycles now);
  void count(const CardRequest& request);
  void send(Cycles now);
  Cycles next_step(Cycles now) const;

  // When the head of a port is decided; kNever while nothing is seen there.
  Cycles head_at(Side& side, Cycles now);
  // Why the program may not make the request; empty: it may.
  std::string refusal(const Side& side, const DramRequest& request) const;
  void except(std::uint32_t program, std::string reason);
  bool is_stopped(std::uint32_t program) const { return (stopped_ >> program & 1) != 0; }
  // The head of a port ends here and now.
  void end_head(std::uint32_t port, Cycles now);
  // The request in terms of the card.
  CardRequest on_card(Side& side, const DramRequest& request) const;
  bool decide(std::uint32_t port, Cycles now);
  bool decide_together(const CardRequest& request, CoreSet expected, Cycles now);
  std::optional<std::uint32_t> port_with(int core, const Share& share, Cycles now);
  Member pop(std::uint32_t port, Cycles now);
  void route_completed(Cycles now);
  void route(const CardRequest& request, CoreSet cores, std::uint32_t waiter, Cycles now);
  // At home.
  void come_home(int group, const CardRequest& request, CoreSet cores, std::uint32_t ticket,
                 Cycles now);
  void note_waits(const ShareDecoder::Entry& entry, bool of_groups);
  void ask(const HomeJob& job, Cycles now);
  void answer(const HomeJob& job, Cycles now);
  void fill_on(std::uint32_t program, Cycles now);
  void fill_next(std::uint32_t program, Cycles now);
  // To groups of this card, of which the unit's is none; to groups of another one.
  void answer_ring(CardMessage message, Cycles now);
  void answer_network(CardMessage message, Cycles now);
  // To groups of one card, over the ring or the network.
  void inject(CardMessage message, Cycles now);
  // The answer is a frame here at `now`; `request` is null where it ended without one.
  void deliver(std::uint32_t waiter, Cycles now, const CardRequest* request = nullptr);
  Cycles over_wires(Wires& wires, std::int64_t bytes, Cycles from, Cycles now) const;
  Cycles over_bus(const Waiter& waiter, Cycles now, const CardRequest* request);
  void complete(const Member& member, std::int64_t bytes, bool write, Cycles at);

  CoreSet own_cores() const;
  GroupSet groups_of(CoreSet cores) const;
  int groups_of_card() const { return sizes_.groups / sizes_.cards; }
  int card_of(int group) const { return group / groups_of_card(); }
  int first_group() const { return card_of(wiring_.group) * groups_of_card(); }  // of the card
  GroupSet groups_of_card(int card) const {
    return ((GroupSet{1} << groups_of_card()) - 1) << (card * groups_of_card());
  }
  CoreSet cores_of_own_card() const;
  int core_of(const Side& side) const { return wiring_.group * sizes_.cores_per_group + side.core; }

  const UnitSizes sizes_;
  const Wiring wiring_;
  std::vector<Side> sides_;
  std::vector<Wires> wires_;
  ShareDecoder members_, groups_;
  TenantBandwidth bandwidth_;
  Pool<Waiter> waiters_;
  Pool<HomeJob> jobs_;
  Ring<Outgoing> outgoing_;
  Cycles bus_free_ = 0;
  Cycles memory_last_ = 0;  // the latest completion of the memory
  CoreSet stopped_ = 0;     // programs
  std::vector<ProgramCounters> by_program_;
  std::map<std::uint32_t, Fill> fills_;  // by program; a grid stays where it is
  std::vector<MemoryException> exceptions_;
  Counters counters_;
};

}  // namespace tessera::engines
