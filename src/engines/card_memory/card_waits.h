// Who waited for what on the memory side of a card: cores for others of their share, and requests for a channel or
// wire that others had.
//
// Times are summed over requests, of which a core has several on their way; one waits for others of its own core, too.
// What is counted is what comes on top:
//
//   share    from the member's coming to the last member's (load_save_unit.h)
//   channel  from the request's coming to the bandwidth controller to the begin of its transfer, less what an idle
//            channel takes for that; where cores own fixed parts of it, what it is held for that is among it
//   wire     how much later the last byte is through than on a wire that is free
//
// A request that is alone has waited nowhere. A transfer on the ring takes its quiet cycles (group_ring.h) and its
// waits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "base/quantity.h"
#include "engines/card_memory/card_request.h"
#include "engines/card_memory/wire_trace.h"

namespace tessera::engines {

struct CardWait {
  enum class For : std::uint8_t {
    kShareOfCores,   // a core, for the core of its group that came last
    kShareOfGroups,  // the cores of a group, for the group that came last
    kWire,           // a core, for a channel or wire
  };
  For what = For::kWire;
  // A core of the cards, of requests for several the first; or a group.
  int who = 0;
  // The core or group that came last; of a wire its group, or of the network the card.
  int other = 0;
  WireUse::Wire wire = WireUse::Wire::kChannel;
  std::uint32_t share = 0;  // its number
  Cycles cycles = 0;

  auto place() const { return std::tuple(what, wire, who, other, share); }
  bool operator==(const CardWait&) const = default;
};

class CardWaits {
 public:
  void reset() { programs_.clear(); }
  void add(std::uint32_t program, const CardWait& wait) {
    if (wait.cycles <= 0) return;
    if (program >= programs_.size()) programs_.resize(program + std::size_t{1});
    programs_[program][key_of(wait)] += wait.cycles;
  }
  // `request` is that many cycles later than on a wire that is free.
  void add_wire(const CardRequest& request, WireUse::Wire wire, int index, Cycles cycles) {
    add(request.program, {.what = CardWait::For::kWire,
                          .who = request.core,
                          .other = index,
                          .wire = wire,
                          .cycles = cycles});
  }
  // Taken out, in the order of place().
  std::vector<CardWait> take(std::uint32_t program) {
    std::vector<CardWait> waits;
    if (program >= programs_.size()) return waits;
    for (const auto& [key, cycles] : programs_[program]) waits.push_back(wait_of(key, cycles));
    programs_[program].clear();
    std::ranges::sort(waits, {}, &CardWait::place);
    return waits;
  }

 private:
  // kind, wire, who, other, share, from the upper bits on.
  static std::uint64_t key_of(const CardWait& wait) {
    TESSERA_CHECK(
        wait.who >= 0 && wait.who < kCoresMax && wait.other >= 0 && wait.other < kCoresMax,
        "{} waits for {}", wait.who, wait.other);
    return std::uint64_t(wait.what) << 56 | std::uint64_t(wait.wire) << 48 |
           std::uint64_t(wait.who) << 40 | std::uint64_t(wait.other) << 32 | wait.share;
  }
  static CardWait wait_of(std::uint64_t key, Cycles cycles) {
    return {.what = static_cast<CardWait::For>(key >> 56),
            .who = static_cast<int>(key >> 40 & 0xff),
            .other = static_cast<int>(key >> 32 & 0xff),
            .wire = static_cast<WireUse::Wire>(key >> 48 & 0xff),
            .share = static_cast<std::uint32_t>(key),
            .cycles = cycles};
  }

  std::vector<std::unordered_map<std::uint64_t, Cycles>> programs_;
};

}  // namespace tessera::engines
