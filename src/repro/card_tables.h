// The published tables of a card of cores, from runs: which cases they need, and their rows.
//
//   networks ─► cases, each once ─► CardRunner ─► rows, sensitivity, within_bound, plots
//
// Every ratio is of a baseline to ours, above 1 where ours takes fewer cycles:
//
//   as published   what the published ratios imply of the baseline (docs/card.md): each core has a fixed part of
//                  the bandwidth, reads all by itself, and meets the others after each layer; whole results go to
//                  other cards; loads come before arithmetic; all layers are cut by width; results of layers go
//                  through memory; 16-bit data
//   strong         the same with loads beside arithmetic, its own best splits, results that stay in state buffers,
//                  and 8-bit data, as ours
#pragma once

#include <span>
#include <string>
#include <vector>

#include "repro/card_case.h"
#include "repro/experiment_result.h"

namespace tessera::repro {

// The eight of the published mean, by their names in the zoo.
std::vector<std::string> card_networks();

// "Ours": all features.
CardCase our_case(const std::string& network, int cores, int cards = 1);
CardCase strong_case(const std::string& network, int cores, int cards = 1);
CardCase published_case(const std::string& network, int cores, int cards = 1);

// Tables `rows`, `sensitivity`, `within_bound` and `scaling` (ours, of 8 and 16 bits, and the share of the bound of
// arithmetic and bytes), plots, notes, and the tables of docs/card.md as `tables.md` (card_markdown.h). Cores of a card are those
// of cloud16. Throughput, bounds and several cards are of ssd_vgg and mobilenet_v1 where they are among `networks`;
// sensitivity is of those and resnet50, or else of the first. Errors are the runner's.
Result<ExperimentResult> card_tables(const std::vector<std::string>& networks,
                                     const CardRunner& runner);

}  // namespace tessera::repro
