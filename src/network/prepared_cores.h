// Programs for several cores that a package is made with: compiled once for some numbers of cores, proved, and
// kept as templates (isa/templates.h), which are filled in for whoever holds so many.
#pragma once

#include <span>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "base/watch.h"
#include "network/network.h"

namespace tessera::network {

struct CoreCount {
  int cores = 1, cards = 1;
  friend auto operator<=>(const CoreCount&, const CoreCount&) = default;
};

// 2, 4, 8, ... up to the cores of the architecture's card, which is the last one; none where it has one core.
std::vector<CoreCount> usual_core_counts(const ChipConfig& chip);

// The package with what it has for these, and for all that it had before; of each also where the cores lie in
// as few groups as can be. Splits are as the performance model chooses them. An error names the number of cores.
Result<Network> prepare_cores(const Network& network, std::span<const CoreCount> counts,
                              Watch* watch = nullptr);

}  // namespace tessera::network
