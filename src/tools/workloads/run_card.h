// Cases of a card of cores (repro/card_case.h): each is compiled for cloud16, proved, and run for its timing
// alone.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "repro/card_case.h"
#include "tessera/network.h"

namespace tessera::tools {

// The results in the order of the cases, on as many threads as the machine has, which changes no cycle. A graph
// is made once a network and number of bits, a program once for cases that differ in the network between cards alone. `progress` (may
// be empty) hears of shares of the whole, from one thread at a time. An error names the case; a network with steps
// of the host is one.
Result<std::vector<repro::CardRun>> run_card_cases(std::span<const repro::CardCase> cases,
                                                   const ProgressCallback& progress);

}  // namespace tessera::tools
