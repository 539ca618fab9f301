#include "tools/workloads/card_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>
#include <utility>

#include "base/check.h"
#include "card/card.h"
#include "compile/compile_shares.h"
#include "compile/split_choice.h"
#include "network/card_program.h"
#include "network/core_candidates.h"

namespace tessera::tools {
namespace {

using compile::ShareChoice;

// What the engines of a core take for its part of a layer: their work, and what the ports of the state buffer
// hold them up; not what they wait for. What brings its operands and kernels and takes its results away lies
// between shares; a part that is nothing else takes what that takes.
struct OnCore {
  std::array<Cycles, isa::kEngineKindCount> engines{};
  Cycles begin = 0, end = 0;  // of its tasks but those that bring kernels; 0: it has none

  // A load that cores have in common waits for the last of them. A task of one step waits for nothing on its
  // way; its last results count as its own, also where the engine already counts for the next task.
  void add(const isa::TaskDescriptor& task, const card::TaskTiming& timing, Cycles from) {
    if (task.engine != isa::EngineKind::kKernel) {
      const Cycles first = from + timing.first_step_begin;
      begin = end == 0 ? first : std::min(begin, first);
      end = std::max(end, from + timing.end);
    }
    if (task.header.share.number != 0) return;
    const bool one_step = task.engine == isa::EngineKind::kPlanar && task.steps() == 1;
    engines[static_cast<std::size_t>(task.engine)] +=
        one_step ? timing.end - timing.first_step_begin : timing.busy + timing.blocked_ports;
  }
  Cycles busiest() const {
    const auto of = [&](isa::EngineKind kind) { return engines[static_cast<std::size_t>(kind)]; };
    const Cycles computes = std::max(of(isa::EngineKind::kNeural), of(isa::EngineKind::kPlanar));
    return computes > 0 ? computes : *std::ranges::max_element(engines);
  }
};
using OnCores = std::vector<std::vector<OnCore>>;  // by layer and core

void add_segment(const isa::CardProgram& program, std::size_t segment,
                 const card::CardStatistics& run, Cycles from, OnCores& times) {
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const isa::Program& of = program.cores[core];
    const std::size_t first = of.segments[segment].task_first;
    const std::vector<card::TaskTiming>& timings = run.cores[core].tasks;
    for (std::size_t i = 0; i < timings.size(); ++i) {
      const isa::TaskDescriptor& task = of.tasks[first + i];
      times[task.layer][core].add(task, timings[i], from);
    }
  }
}

Result<Cycles> run_card(const isa::CardProgram& program, const ChipConfig& chip,
                        const CardPlacement& placement, OnCores& times) {
  TESSERA_TRY(const auto card, card::Card::create(chip, placement));
  TESSERA_RETURN_IF_ERROR(card->load(program));
  Cycles cycles = 0;
  for (std::size_t segment = 0; segment < program.cores[0].segments.size(); ++segment) {
    TESSERA_TRY(const card::CardStatistics part, card->run_segment(segment, {.timing_only = true}));
    add_segment(program, segment, part, cycles, times);
    cycles += part.cycles;
  }
  return cycles;
}

void add_span(const std::vector<OnCore>& cores, const compile::LayerSpan& modelled,
              ModelledLayer& layer) {
  layer.model_begin = modelled.begin;
  layer.model_end = modelled.end;
  for (const OnCore& core : cores) {
    if (core.end == 0) continue;
    const auto begin = static_cast<double>(core.begin);
    layer.card_begin = layer.card_end == 0 ? begin : std::min(layer.card_begin, begin);
    layer.card_end = std::max(layer.card_end, static_cast<double>(core.end));
  }
}

void add_share(const ModelledShare& share, ModelledLayer& layer, CardModelRun& run) {
  layer.model += share.model;
  layer.card += share.card;
  layer.share_error += std::abs(share.error());
  ++layer.shares;
  run.shares.push_back(share);
}

}  // namespace

double CardModelRun::error_of(double cycles) const {
  const auto card = static_cast<double>(card_cycles);
  return card == 0 ? 0 : (cycles - card) / card;
}

double CardModelRun::share_error() const {
  MeanError mean;
  for (const ModelledShare& share : shares) {
    mean.add(share.error());
  }
  return mean.mean();
}

double CardModelRun::share_error_by_time() const {
  double wrong = 0, time = 0;
  for (const ModelledShare& share : shares) {
    wrong += std::abs(share.model - share.card);
    time += share.card;
  }
  return time == 0 ? 0 : wrong / time;
}

void MeanError::add(double error) {
  sum += std::abs(error);
  worst = std::max(worst, std::abs(error));
  ++count;
}

namespace {

// Fewer cores than there are belong to one card.
int cards_of(const CardPlacement& placement, const ShareChoice& choice) {
  return choice.cores < static_cast<int>(placement.core.size()) ? 1 : placement.cards;
}

// The model of the cores that a choice is for.
Result<compile::SplitModel> model_of(const NetworkState& network, const CardPlacement& placement,
                                     const ShareChoice& choice) {
  return compile::split_model(*network.package.graph, network.chip, {.kernels = network.kernels},
                              choice, cards_of(placement, choice));
}

struct DrawnSplits {
  std::vector<compile::Split> of_nodes;
  double cycles = 0;  // by the model
};

// The best `keep` of `drawn`.
std::vector<DrawnSplits> draw(const compile::SplitModel& model, std::size_t nodes, int ways,
                              int drawn, int keep, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<DrawnSplits> all;
  for (int i = 0; i < drawn; ++i) {
    DrawnSplits& one = all.emplace_back();
    for (std::size_t n = 0; n < nodes; ++n) {
      one.of_nodes.push_back(
          static_cast<compile::Split>(random() % static_cast<std::uint64_t>(ways)));
    }
    one.cycles = model.estimate(one.of_nodes);
  }
  std::ranges::stable_sort(all, {}, &DrawnSplits::cycles);
  all.resize(std::min(all.size(), static_cast<std::size_t>(keep)));
  return all;
}

}  // namespace

Result<RandomSplits> run_random_splits(const NetworkState& network, const CardPlacement& placement,
                                       int drawn, int on_card, std::uint64_t seed) {
  TESSERA_TRY(const compile::SharedProgram chosen,
              network::program_for_cores(network, placement, CoreSplit::kAuto));
  RandomSplits result;
  ShareChoice choice = chosen.choice;
  if (choice.cores == 1) return result;  // nothing is cut
  TESSERA_TRY(const compile::SplitModel model, model_of(network, placement, choice));
  const int ways = choice.cores < compile::kGridCoresMin ? 2 : 3;
  const std::size_t nodes = network.package.graph->nodes.size();
  for (const DrawnSplits& one : draw(model, nodes, ways, drawn, std::max(on_card, 1), seed)) {
    if (result.drawn == 0) result.model_cycles = one.cycles;
    result.drawn = drawn;
    if (result.on_card == on_card) break;
    choice.of_nodes = one.of_nodes;
    TESSERA_TRY(compile::SharedProgram shared,
                compile::compile_shares(network.package.graph, network.chip,
                                        {.kernels = network.kernels}, choice));
    // Cores beyond those of the choice have nothing to do in either.
    shared.card.cards = placement.cards;
    OnCores times(shared.layers.size(), std::vector<OnCore>(shared.card.cores.size()));
    TESSERA_TRY(const CardPlacement own, spread_cores(network.chip, placement.cards, choice.cores));
    TESSERA_TRY(const Cycles cycles, run_card(shared.card, network.chip, own, times));
    if (result.on_card++ == 0 || cycles < result.card_cycles) result.card_cycles = cycles;
  }
  return result;
}

Result<CardModelRun> run_card_model(const NetworkState& network, const CardPlacement& placement,
                                    CoreSplit split) {
  TESSERA_TRY(const compile::SharedProgram shared,
              network::program_for_cores(network, placement, split));
  const graph::Graph& graph = *network.package.graph;
  ShareChoice choice = shared.choice;
  if (choice.of_nodes.empty()) choice.of_nodes.assign(graph.nodes.size(), choice.split);
  TESSERA_TRY(const compile::SplitModel choosing, model_of(network, placement, choice));
  TESSERA_TRY(const compile::ModelledChoice made,
              compile::model_choice(graph, network.chip, {.kernels = network.kernels}, choice,
                                    cards_of(placement, choice)));
  const compile::ModelRun& modelled = made.run;
  const std::vector<compile::LayerCost>& costs = made.costs;
  CardModelRun run;
  run.cores = choice.cores;
  run.model_cycles = modelled.cycles;
  run.chosen_by_cycles = choosing.estimate(choice.of_nodes);
  if (choice.cores == 1 && network::runs_one_core_program(network.chip)) {
    TESSERA_TRY(run.model_cycles, network::predicted_cycles(network));
    run.chosen_by_cycles = run.model_cycles;
  }
  OnCores times(shared.layers.size(), std::vector<OnCore>(shared.card.cores.size()));
  TESSERA_TRY(run.card_cycles, run_card(shared.card, network.chip, placement, times));
  run.layers.resize(shared.layers.size());
  for (std::size_t i = 0; i < shared.layers.size(); ++i) {
    ModelledLayer& layer = run.layers[i];
    layer.name = shared.layers[i].name;
    layer.way = compile::share_way_name(shared.layers[i].way);
    // The program of one core has layers of its own (compile/compile.h).
    if (modelled.shares.size() != shared.layers.size()) continue;
    const compile::LayerCost& cost = costs[i];
    layer.cost = {cost.compute, cost.memory, cost.ring, cost.bus, cost.network, cost.exchange};
    add_span(times[i], modelled.layers[static_cast<compile::LayerIndex>(i)], layer);
    for (std::size_t core = 0; core < static_cast<std::size_t>(choice.cores); ++core) {
      const auto on_card = static_cast<double>(times[i][core].busiest());
      if (on_card == 0) continue;
      const double in_model = modelled.shares[static_cast<compile::LayerIndex>(i)][core];
      add_share({i, core, in_model, on_card}, layer, run);
    }
    if (layer.shares > 0) layer.share_error /= static_cast<double>(layer.shares);
  }
  return run;
}

}  // namespace tessera::tools
