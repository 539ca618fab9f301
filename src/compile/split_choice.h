// Which way each layer is cut: the choice with the least time of all layers together, by the model of
// compile/split_model.h, in which what a layer costs depends on how those that it reads are cut. Grids
// are used where the network takes kGridsWorthIt of the time of the best choice without them, or less:
// closer than that the model does not know which of the two is faster.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "compile/compile_shares.h"
#include "compile/share_choice.h"
#include "compile/split_model.h"
#include "graph/graph.h"

namespace tessera::compile {

inline constexpr double kGridsWorthIt = 0.99;

// For 1 to kCoresMax cores; errors as of compile_shares(). `base` has all but the splits; its cores are
// of `cards` cards.
Result<ShareChoice> choose_splits(const std::shared_ptr<const graph::Graph>& graph,
                                  const ChipConfig& chip, const CompileOptions& options,
                                  const ShareChoice& base, int cards = 1);

// The same, with what the model says of it.
struct ChosenSplits {
  ShareChoice choice;
  isa::ModelledCores model;  // of its cores
  double cycles = 0;         // of the network
  double waiting = 0;        // of all layers together, for what other cores made
};
Result<ChosenSplits> choose_and_estimate(const graph::Graph& graph, const ChipConfig& chip,
                                         const CompileOptions& options, const ShareChoice& base,
                                         int cards = 1);

// choose_and_estimate() for one number of cores after the other: what was found once for the same cores, with the same
// memories and features, is known.
class SplitChooser {
 public:
  // The graph and the chip outlive it.
  SplitChooser(const graph::Graph& graph, const ChipConfig& chip, CompileOptions options)
      : graph_(graph), chip_(chip), options_(std::move(options)) {}

  Result<ChosenSplits> choose(const ShareChoice& base, int cards = 1);

 private:
  struct Key {
    int cores = 1, cards = 1;
    std::vector<std::uint8_t> memory_of_core;
    std::array<bool, 5> features{};
    auto operator<=>(const Key&) const = default;
  };

  const graph::Graph& graph_;
  const ChipConfig& chip_;
  const CompileOptions options_;
  std::map<Key, ChosenSplits> found_;
};

// What the model says of one choice of splits by the tasks that it gives: more than it knows while choosing, since
// where blocks of the state buffer come to lie, and which results stay there, depends on all layers.
struct ModelledChoice {
  ModelRun run;
  std::vector<LayerCost> costs;
};
Result<ModelledChoice> model_choice(const graph::Graph& graph, const ChipConfig& chip,
                                    const CompileOptions& options, const ShareChoice& choice,
                                    int cards = 1);

// The model that it chooses by. The graph outlives it.
Result<SplitModel> split_model(const graph::Graph& graph, const ChipConfig& chip,
                               const CompileOptions& options, const ShareChoice& base,
                               int cards = 1);

}  // namespace tessera::compile
