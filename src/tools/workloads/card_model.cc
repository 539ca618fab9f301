#include "tools/workloads/card_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <utility>

#include "base/check.h"
#include "card/card.h"
#include "compile/split_choice.h"
#include "network/card_program.h"

namespace tessera::tools {
namespace {

using compile::ShareChoice;

// What the engines of a core take for its part of a layer: their work, and what the ports of the state buffer
// hold them up; not what they wait for. What brings its operands and takes its results away lies between
// shares; a part that is nothing else takes what that takes.
struct OnCore {
  std::array<Cycles, isa::kEngineKindCount> engines{};

  void add(isa::EngineKind engine, const card::TaskTiming& timing) {
    engines[static_cast<std::size_t>(engine)] += timing.busy + timing.blocked_ports;
  }
  Cycles busiest() const {
    const auto of = [&](isa::EngineKind kind) { return engines[static_cast<std::size_t>(kind)]; };
    const Cycles computes = std::max(of(isa::EngineKind::kNeural), of(isa::EngineKind::kPlanar));
    if (computes > 0) return std::max(computes, of(isa::EngineKind::kKernel));
    return *std::ranges::max_element(engines);
  }
};
using OnCores = std::vector<std::vector<OnCore>>;  // by layer and core

void add_segment(const isa::CardProgram& program, std::size_t segment,
                 const card::CardStatistics& run, OnCores& times) {
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const isa::Program& of = program.cores[core];
    const std::size_t first = of.segments[segment].task_first;
    for (std::size_t i = 0; i < run.cores[core].tasks.size(); ++i) {
      const isa::TaskDescriptor& task = of.tasks[first + i];
      times[task.layer][core].add(task.engine, run.cores[core].tasks[i]);
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
    add_segment(program, segment, part, times);
    cycles += part.cycles;
  }
  return cycles;
}

void add_share(const ModelledShare& share, ModelledLayer& layer, CardModelRun& run) {
  layer.model += share.model;
  layer.card += share.card;
  layer.share_error += std::abs(share.error());
  ++layer.shares;
  run.shares.push_back(share);
}

}  // namespace

double CardModelRun::error() const {
  const auto card = static_cast<double>(card_cycles);
  return card == 0 ? 0 : (model_cycles - card) / card;
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

Result<CardModelRun> run_card_model(const NetworkState& network, const CardPlacement& placement,
                                    CoreSplit split) {
  TESSERA_TRY(const compile::SharedProgram shared,
              network::program_for_cores(network, placement, split));
  const graph::Graph& graph = *network.package.graph;
  ShareChoice choice = shared.choice;
  if (choice.of_nodes.empty()) choice.of_nodes.assign(graph.nodes.size(), choice.split);
  const bool fewer = choice.cores < static_cast<int>(placement.core.size());
  TESSERA_TRY(const compile::SplitModel model,
              compile::split_model(graph, network.chip, {.kernels = network.kernels}, choice,
                                   fewer ? 1 : placement.cards));
  const compile::ModelRun modelled = model.run(choice.of_nodes);
  CardModelRun run;
  run.cores = choice.cores;
  run.model_cycles = modelled.cycles;
  OnCores times(shared.layers.size(), std::vector<OnCore>(shared.card.cores.size()));
  TESSERA_TRY(run.card_cycles, run_card(shared.card, network.chip, placement, times));
  run.layers.resize(shared.layers.size());
  for (std::size_t i = 0; i < shared.layers.size(); ++i) {
    ModelledLayer& layer = run.layers[i];
    layer.name = shared.layers[i].name;
    layer.way = compile::share_way_name(shared.layers[i].way);
    // The program of one core has layers of its own (compile/compile.h).
    if (modelled.shares.size() != shared.layers.size()) continue;
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
