// The memory side of the cards that run a program: a channel for each group, load/save units, rings and
// network (engines/card_memory), as the architecture's card says, with ports for the cores in use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "base/result.h"
#include "card/run_statistics.h"
#include "engines/card_memory/card_memory.h"
#include "engines/card_memory/channel_memory.h"
#include "engines/memory/dram_port.h"

namespace tessera::card {

class CardMemories {
 public:
  // The ports of each of the placement's cores, which outlive this.
  CardMemories(const ChipConfig& chip, const CardPlacement& placement,
               const std::vector<std::vector<engines::DramPort*>>& ports)
      : CardMemories(chip, placement, ports, Use::kOneProgram) {}
  // Of so many cards that tenants share: the ports of all their cores, of which none has a program yet.
  static Result<std::unique_ptr<CardMemories>> shared(
      const ChipConfig& chip, int cards, const std::vector<std::vector<engines::DramPort*>>& ports);

  void reset() { memory_->reset(); }
  // A core has asked for something in the cycle before `now`.
  void wake(std::size_t core, Cycles now) { memory_->wake(group_of_core_[core], now); }
  Cycles next() const { return memory_->next(); }
  void step(Cycles now) { memory_->step(now); }
  // Of the tenants of shared cards.
  engines::CardMemory& of_tenants() { return *memory_; }
  // Null where there is one card.
  engines::NetworkStations* network() { return memory_->network(); }
  // Requests of all cores that are on their way at once, at most.
  std::size_t outstanding() const { return outstanding_; }

  // A request that the program may not make, or members of a share that do not agree.
  Status check_exceptions();
  std::string describe() const { return memory_->describe(); }

  // How long news of a finished step takes from one core to another: a counter in the group, a header
  // around the ring, a header over the network.
  Cycles news_cycles(std::size_t from, std::size_t to) const {
    return news_between(group_of_core_[from], group_of_core_[to]);
  }
  // From one group to another.
  Cycles news_between(int from, int to) const;

  // Whole results between cards (isa/whole_results.h).
  bool exchanges_results() const {
    return placement_.cards > 1 && chip_.card.features.needed_bytes_only == 0;
  }
  std::vector<int> card_of_core() const;
  // Sends it as one message to each card of `to`, `number` names it.
  void send_result(int from, std::uint32_t to, std::int64_t bytes, std::uint32_t number,
                   Cycles now);
  // Those that arrive at a time that is known since the last call; `at`: cores of the card know it then.
  std::vector<engines::NetworkStations::ResultDelivery> take_results();

  // Rows for what the cores have in common, at the end of a run of `end` cycles: channels, units, ring
  // links and network ports. Those of groups and cards in which no core runs are left out.
  std::vector<EngineStatistics> statistics(Cycles end);
  std::int64_t row_misses();
  // Keeps a trace of a program's uses of channels and wires, or none.
  void want_trace(std::uint32_t program, bool wanted) { memory_->trace().want(program, wanted); }
  // The uses of a program on these cores of the cards since it was wanted, of those that have a row, in cycles
  // since `begin`.
  std::vector<WireEvent> take_trace(std::uint32_t program, const std::vector<int>& cores,
                                    const std::vector<EngineStatistics>& rows, Cycles begin);
  // What requests of a program on these cores have waited for since the last call.
  std::vector<RequestWait> take_waits(std::uint32_t program, const std::vector<int>& cores);

 private:
  enum class Use { kOneProgram, kTenants };
  CardMemories(const ChipConfig& chip, const CardPlacement& placement,
               const std::vector<std::vector<engines::DramPort*>>& ports, Use use);
  void add_channels(Cycles end, std::vector<EngineStatistics>& rows);
  void add_wires(Cycles end, std::vector<EngineStatistics>& rows);

  const ChipConfig chip_;
  const CardPlacement placement_;
  engines::UnitSizes units_;
  engines::RingSizes ring_;
  engines::NetworkSizes network_;
  engines::CardPlaces places_;
  std::vector<int> group_of_core_;
  std::size_t outstanding_ = 0;
  std::vector<std::unique_ptr<engines::ChannelMemory>> channels_;  // of each group
  std::unique_ptr<engines::CardMemory> memory_;
};

}  // namespace tessera::card
