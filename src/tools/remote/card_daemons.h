// Networks of the zoo on all cores of one to four cards, once in this process and once over daemons: etcd, a master and
// a node for each card, as processes on loopback, whose cards exchange frames at the network's modelled speed. The cycles have to be the same.
#pragma once

#include <string>
#include <vector>

#include "base/quantity.h"
#include "base/result.h"
#include "repro/card_case.h"
#include "tessera/network.h"

namespace tessera::tools {

struct DaemonsRow {
  repro::CardCase one;
  std::string setting;  // "ours", "strong baseline", "baseline as published" (repro/card_tables.h)
  Cycles in_process = 0, over_daemons = 0;
  std::string failure;  // why there are none over daemons; empty: there are

  bool is_same() const { return failure.empty() && over_daemons == in_process; }
};

// Timing alone, of the three settings at 100 and 200 Gb/s (one card has no network, and is there once). Rows by network,
// cards and speed. A run over daemons that fails is a row that says why; an error: nothing could be compared.
// kUnsupported: there is no etcd.
Result<std::vector<DaemonsRow>> compare_over_daemons(const std::vector<std::string>& networks,
                                                     const std::vector<int>& cards,
                                                     const ProgressCallback& progress);

}  // namespace tessera::tools
