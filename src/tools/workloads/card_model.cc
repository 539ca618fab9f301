#include "tools/workloads/card_model.h"

#include <algorithm>
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

bool computes(isa::EngineKind engine) {
  return engine == isa::EngineKind::kNeural || engine == isa::EngineKind::kPlanar;
}

// When a core begins with its part of a layer, and ends: of its engines, or of its DMA where the layer has
// no work for these.
struct OnCore {
  bool any = false, on_engines = false;
  Cycles begin = 0, end = 0;

  void add(const card::TaskTiming& timing, bool engines, Cycles offset) {
    if (engines && !on_engines) any = false;
    if (!engines && on_engines) return;
    on_engines = engines;
    const Cycles first = offset + timing.first_step_begin, last = offset + timing.end;
    begin = any ? std::min(begin, first) : first;
    end = any ? std::max(end, last) : last;
    any = true;
  }
};
using OnCores = std::vector<std::vector<OnCore>>;  // by layer and core

void add_segment(const isa::CardProgram& program, std::size_t segment,
                 const card::CardStatistics& run, Cycles offset, OnCores& times) {
  for (std::size_t core = 0; core < program.cores.size(); ++core) {
    const isa::Program& of = program.cores[core];
    const std::size_t first = of.segments[segment].task_first;
    for (std::size_t i = 0; i < run.cores[core].tasks.size(); ++i) {
      const isa::TaskDescriptor& task = of.tasks[first + i];
      times[task.layer][core].add(run.cores[core].tasks[i], computes(task.engine), offset);
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

// All that both say of one share.
void add_share(const ModelledShare& share, ModelledLayer& layer, CardModelRun& run) {
  const ModelledSpan& span = share.span;
  ModelledSpan& all = layer.span;
  const bool first = layer.shares == 0;
  all.model_begin = first ? span.model_begin : std::min(all.model_begin, span.model_begin);
  all.model_end = std::max(all.model_end, span.model_end);
  all.card_begin = first ? span.card_begin : std::min(all.card_begin, span.card_begin);
  all.card_end = std::max(all.card_end, span.card_end);
  layer.share_error += std::abs(span.model_cycles() - span.card_cycles()) / span.card_cycles();
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
    mean.add((share.span.model_cycles() - share.span.card_cycles()) / share.span.card_cycles());
  }
  return mean.mean();
}

double CardModelRun::share_error_by_time() const {
  double wrong = 0, time = 0;
  for (const ModelledShare& share : shares) {
    wrong += std::abs(share.span.model_cycles() - share.span.card_cycles());
    time += share.span.card_cycles();
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
      const OnCore& at = times[i][core];
      if (!at.any || at.end <= at.begin) continue;
      const auto& of_model = modelled.shares[static_cast<compile::LayerIndex>(i)][core];
      add_share({i, core, {of_model.begin, of_model.end, at.begin, at.end}}, layer, run);
    }
    if (layer.shares > 0) layer.share_error /= static_cast<double>(layer.shares);
  }
  return run;
}

}  // namespace tessera::tools
