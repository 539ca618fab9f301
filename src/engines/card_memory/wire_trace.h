// When the channels and wires of a card were taken, and for whom: what the timeline shows beside the engines.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/quantity.h"
#include "engines/card_memory/card_request.h"

namespace tessera::engines {

struct WireUse {
  enum class Wire : std::uint8_t { kChannel, kBus, kLink, kNetworkOut, kNetworkIn };
  Wire wire = Wire::kChannel;
  int index = 0;  // a group; of the network a card
  Cycles begin = 0, end = 0;
  std::int64_t bytes = 0;  // of data; on the way there and back of a write that has arrived none
  bool write = false;
  std::uint32_t program = 0;
  // Whose request it was, the first of those that had it in common. kNobody: a result that goes from card to card.
  static constexpr int kNobody = -1;
  int core = kNobody;
  std::uint32_t task = DramRequest::kNoTask;

  // What a request takes of a wire.
  static WireUse of(const CardRequest& request, Wire wire, int index, Cycles begin, Cycles end) {
    return {.wire = wire,
            .index = index,
            .begin = begin,
            .end = end,
            .bytes = request.bytes(),
            .write = request.dram.write,
            .program = request.program,
            .core = request.core,
            .task = request.dram.task};
  }
};

// Of the programs that ask for one. The uses of a program do not overlap on a wire.
class WireTrace {
 public:
  bool wanted(std::uint32_t program) const {
    return program < wanted_.size() && wanted_[program].on;
  }
  // From now on, or no longer; what was kept is forgotten.
  void want(std::uint32_t program, bool on) {
    if (program >= wanted_.size()) {
      if (!on) return;
      wanted_.resize(program + std::size_t{1});
    }
    wanted_[program] = {};
    wanted_[program].on = on;
  }
  // What follows without a gap for the same task is one use.
  void add(const WireUse& use) {
    if (!wanted(use.program)) return;
    Program& program = wanted_[use.program];
    const auto [last, is_first] =
        program.last.try_emplace({use.wire, use.index}, program.uses.size());
    if (!is_first) {
      WireUse& before = program.uses[last->second];
      const bool same = before.core == use.core && before.task == use.task;
      if (same && before.write == use.write && before.end == use.begin) {
        before.end = use.end;
        before.bytes += use.bytes;
        return;
      }
      last->second = program.uses.size();
    }
    program.uses.push_back(use);
  }
  // Taken out, in the order in which they were known.
  std::vector<WireUse> take(std::uint32_t program) {
    if (!wanted(program)) return {};
    wanted_[program].last.clear();
    return std::exchange(wanted_[program].uses, {});
  }

 private:
  struct Program {
    bool on = false;
    std::vector<WireUse> uses;
    std::map<std::pair<WireUse::Wire, int>, std::size_t> last;  // of each wire, in `uses`
  };
  std::vector<Program> wanted_;
};

}  // namespace tessera::engines
