// The performance model (compile/split_model.h) against the virtual card: the same network, cores and splits in
// both. While it chooses splits it knows each layer cut each way everywhere; of what is chosen, the tasks that are
// made.
//
//   share: a core's part of a layer; how long its array or its lanes work on it, or what moves it where these do
//   not
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/card_placement.h"
#include "base/result.h"
#include "compile/split_model.h"
#include "network/network.h"
#include "tessera/core_split.h"

namespace tessera::tools {

// Cycles.
struct ModelledShare {
  std::size_t layer = 0, core = 0;
  double model = 0, card = 0;

  double error() const { return (model - card) / card; }
};

struct ModelledLayer {
  std::string name, way;
  std::size_t shares = 0;      // that take any time on the card
  double model = 0, card = 0;  // of all of them together
  double share_error = 0;      // on average, a part of the card's time
  // By the model, for all cores: arithmetic, memories, ring, bus, network, waiting.
  std::array<double, 6> cost{};
  // When its results are being made: from the first step of an engine of any core to the last one's end.
  double model_begin = 0, model_end = 0, card_begin = 0, card_end = 0;
};

struct CardModelRun {
  int cores = 1;                // that have a part in it
  double model_cycles = 0;      // of the tasks that are made
  double chosen_by_cycles = 0;  // while it chose
  std::int64_t card_cycles = 0;
  std::vector<ModelledLayer> layers;  // by layer; those without a share have none
  std::vector<ModelledShare> shares;

  // A part of the card's time; positive where the model takes too long.
  double error() const { return error_of(model_cycles); }
  double error_while_choosing() const { return error_of(chosen_by_cycles); }
  // Of all shares on average: each counts as much, or as much as its time on the card.
  double share_error() const;
  double share_error_by_time() const;

 private:
  double error_of(double cycles) const;
};

// With the splits that program_for_cores() chooses, or all layers cut one way. Errors as of that, and of a
// run that fails. Steps of the host take no time.
Result<CardModelRun> run_card_model(const NetworkState& network, const CardPlacement& placement,
                                    CoreSplit split);

// Splits drawn at random, each layer's for itself, for the cores that the choice has.
struct RandomSplits {
  int drawn = 0, on_card = 0;    // the card runs those that the model thinks best
  double model_cycles = 0;       // the least of all
  std::int64_t card_cycles = 0;  // the least of those that ran; 0: none
};

// `drawn` choices, the best `on_card` of which run. The same seed draws the same ones.
Result<RandomSplits> run_random_splits(const NetworkState& network, const CardPlacement& placement,
                                       int drawn, int on_card, std::uint64_t seed);

// |model - card| / card, summed up over runs.
struct MeanError {
  double sum = 0, worst = 0;
  std::int64_t count = 0;

  void add(double error);
  double mean() const { return count == 0 ? 0 : sum / static_cast<double>(count); }
};

}  // namespace tessera::tools
