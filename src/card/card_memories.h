// The memory side of the cards that run a program: a channel for each group, load/save units, rings and
// network (engines/card_memory), as the architecture's card says, with ports for the cores in use.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arch/card_placement.h"
#include "arch/chip_config.h"
#include "card/run_statistics.h"
#include "engines/card_memory/card_memory.h"
#include "engines/card_memory/channel_memory.h"
#include "engines/memory/dram_port.h"

namespace tessera::card {

class CardMemories {
 public:
  // The ports of each of the placement's cores, which outlive this.
  CardMemories(const ChipConfig& chip, const CardPlacement& placement,
               const std::vector<std::vector<engines::DramPort*>>& ports);

  void reset() { memory_->reset(); }
  // A core has asked for something in the cycle before `now`.
  void wake(std::size_t core, Cycles now) { memory_->wake(group_of_core_[core], now); }
  Cycles next() const { return memory_->next(); }
  void step(Cycles now) { memory_->step(now); }
  // Members of a share that do not agree, or "".
  std::string fault() const;
  std::string describe() const { return memory_->describe(); }

  // How long news of a finished step takes from one core to another: a counter in the group, a header
  // around the ring, a header over the network.
  Cycles news_cycles(std::size_t from, std::size_t to) const;

  // Rows for what the cores have in common, at the end of a run of `end` cycles: channels, units, ring
  // links and network ports. Those of groups and cards in which no core runs are left out.
  std::vector<EngineStatistics> statistics(Cycles end);
  std::int64_t row_misses();

 private:
  void add_channels(Cycles end, std::vector<EngineStatistics>& rows);
  void add_wires(Cycles end, std::vector<EngineStatistics>& rows);

  const ChipConfig chip_;
  const CardPlacement placement_;
  engines::UnitSizes units_;
  engines::RingSizes ring_;
  engines::NetworkSizes network_;
  engines::CardPlaces places_;
  std::vector<int> group_of_core_;
  std::vector<std::unique_ptr<engines::ChannelMemory>> channels_;  // of each group
  std::unique_ptr<engines::CardMemory> memory_;
};

}  // namespace tessera::card
