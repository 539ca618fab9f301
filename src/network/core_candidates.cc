#include "network/core_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/quantity.h"
#include "card/card.h"
#include "compile/compile.h"
#include "compile/timeline.h"
#include "link/link.h"

namespace tessera::network {

namespace {

// As the package has it; whoever runs several cores alone has not compiled one.
Result<isa::Program> one_core_program(const NetworkState& network) {
  const package::Package& package = network.package;
  if (!package.frames.empty()) return link::link(package, network.chip);
  TESSERA_TRY(const package::Package compiled,
              compile::compile(package.graph, network.chip, {.kernels = network.kernels}));
  return link::link(compiled, network.chip);
}

// How long a core's array takes for the products alone.
double array_cycles(const NetworkState& network) {
  std::int64_t products = 0;
  for (const graph::Node& node : network.package.graph->nodes)
    products += graph::node_macs(*network.package.graph, node);
  const auto& neural = network.chip.neural;
  return static_cast<double>(products) /
         (static_cast<double>(neural.rows) * neural.columns * static_cast<double>(neural.count));
}

// Cores with nothing to do behind those that the program has.
void add_idle_cores(const TeamOfCores& team, isa::CardProgram& card) {
  isa::Program idle = card.cores.back();
  if (card.cores.size() == 1) {
    idle.weights = {};
    idle.inputs = {};
    idle.outputs = {};
    idle.hints = {};
  }
  idle.tasks.clear();
  idle.stream.clear();
  idle.stream_offsets.clear();
  idle.pieces.clear();
  idle.dependencies_dropped = 0;
  for (isa::Segment& segment : idle.segments) segment = {};
  card.cores.resize(static_cast<std::size_t>(team.cores), idle);
  card.memory_of_core = team.memories;
}

// On these cores of a card that nobody else uses, timing only, without the host's steps.
Result<Cycles> cycles_on_card(const NetworkState& network, const TeamOfCores& team,
                              const isa::CardProgram& program) {
  CardPlacement places = *team.places;  // a tenant's cores may lie on the last of several cards
  const int last = *std::ranges::max_element(places.core);
  places.cards = std::max(places.cards, last / network.chip.card.cores() + 1);
  TESSERA_TRY(const auto card, card::Card::create(network.chip, places));
  TESSERA_RETURN_IF_ERROR(card->load(program, program.cores[0].weights.bytes()));
  card::CoreOptions options;
  options.timing_only = true;
  Cycles cycles = 0;
  for (std::size_t segment = 0; segment < program.cores[0].segments.size(); ++segment) {
    TESSERA_TRY(const card::CardStatistics statistics, card->run_segment(segment, options));
    cycles += statistics.cycles;
  }
  return cycles;
}

class Candidates {
 public:
  Candidates(const NetworkState& network, const TeamOfCores& team, compile::SplitChooser& chooser)
      : network_(network), team_(team), chooser_(chooser) {}

  // One that the model is sure of, or else the fastest of those that were timed; of equals the one with the fewest
  // cores.
  Result<compile::SharedProgram> fastest() {
    TESSERA_RETURN_IF_ERROR(find());
    const double least = least_cycles();
    if (team_.places == nullptr) {
      return made(*std::ranges::find(found_, least, &compile::ChosenSplits::cycles));
    }
    std::erase_if(found_, [least](const compile::ChosenSplits& one) {
      return one.choice.cores > 1 && one.cycles > kUnsure * least;
    });
    if (found_.size() == 1) return made(found_.front());
    std::optional<compile::SharedProgram> best;
    Cycles cycles = 0;
    for (const compile::ChosenSplits& one : found_) {
      TESSERA_TRY(compile::SharedProgram program, made(one));
      TESSERA_TRY(const Cycles its, cycles_on_card(network_, team_, program.card));
      if (best.has_value() && its > cycles) continue;
      best = std::move(program);
      cycles = its;
    }
    return std::move(*best);
  }

 private:
  // Of all cores; of the first ones alone, where more would wait for each other a tenth of the time or longer, fewer
  // and fewer; of one, where its array could be done in time.
  Status find() {
    constexpr double kWaiting = 0.1;
    TeamOfCores team = team_;
    TESSERA_RETURN_IF_ERROR(add(team));
    while (team.cores > 1 && found_.back().waiting > kWaiting * found_.back().cycles) {
      team.cores = team.cards > 1 ? ceil_div(team.cores, team.cards) : team.cores / 2;
      team.cards = 1;
      if (!team.memories.empty()) team.memories.resize(static_cast<std::size_t>(team.cores));
      if (team.cores == 1 && runs_one_core_program(network_.chip)) break;
      TESSERA_RETURN_IF_ERROR(add(team));
    }
    return runs_one_core_program(network_.chip) ? add_one_core() : Status{};
  }

  double least_cycles() const {
    return std::ranges::min(found_, {}, &compile::ChosenSplits::cycles).cycles;
  }

  Status add(const TeamOfCores& team) {
    const auto choice = share_choice(network_.chip, team, CoreSplit::kAuto);
    TESSERA_TRY(compile::ChosenSplits chosen, chooser_.choose(choice, team.cards));
    found_.push_back(std::move(chosen));
    return {};
  }

  Status add_one_core() {
    if (array_cycles(network_) > kUnsure * least_cycles()) return {};
    compile::ChosenSplits alone = found_.front();
    alone.choice.cores = 1;
    alone.choice.of_nodes.assign(alone.choice.of_nodes.size(), compile::Split::kRows);
    alone.choice.memory_of_core.clear();
    alone.model.cores = 1;
    alone.model.layers.clear();
    alone.model.chosen.assign(alone.model.chosen.size(), 0);
    TESSERA_TRY(alone.cycles, predicted_cycles(network_));
    alone.model.cycles = alone.cycles;
    alone.waiting = 0;
    found_.push_back(std::move(alone));
    return {};
  }

  Result<compile::SharedProgram> made(const compile::ChosenSplits& one) const {
    const bool alone = one.choice.cores == 1 && runs_one_core_program(network_.chip);
    TESSERA_TRY(compile::SharedProgram program,
                alone ? one_core_shares(network_)
                      : compile::compile_shares(network_.package.graph, network_.chip,
                                                {.kernels = network_.kernels}, one.choice));
    if (one.choice.cores < team_.cores) add_idle_cores(team_, program.card);
    program.card.cards = team_.cards;
    program.model = std::make_shared<const isa::ModelledCores>(one.model);
    return program;
  }

  const NetworkState& network_;
  const TeamOfCores& team_;
  compile::SplitChooser& chooser_;
  std::vector<compile::ChosenSplits> found_;  // fewer and fewer cores
};

}  // namespace

compile::ShareChoice share_choice(const ChipConfig& chip, const TeamOfCores& team,
                                  CoreSplit split) {
  const CardFeatures& features = chip.card.features;
  compile::ShareChoice choice{
      .cores = team.cores,
      .split = split == CoreSplit::kChannels ? compile::Split::kChannels : compile::Split::kRows,
      .of_nodes = {}};
  choice.memory_of_core = team.memories;
  // Cards that exchange whole results have them in memory.
  choice.hand_over =
      features.hand_over != 0 && (features.needed_bytes_only != 0 || team.cards == 1);
  choice.share_loads = features.merge != 0;
  choice.meet_after_layers = features.instruction_sync == 0;
  choice.load_before_arithmetic = features.loads_beside_arithmetic == 0;
  return choice;
}

Result<double> predicted_cycles(const NetworkState& network) {
  TESSERA_TRY(const isa::Program program, one_core_program(network));
  std::vector<std::uint32_t> segments;  // of each task
  for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
    segments.insert(segments.end(), program.segments[s].task_last - program.segments[s].task_first,
                    s);
  }
  constexpr std::int64_t kShortAnswerBytes = 512;
  // A short request to the load/save unit, and the first frame of its answer.
  const LoadSaveConfig& unit = network.chip.card.load_save;
  const Cycles answer =
      1 + unit.unpack_cycles + unit.pack_cycles + ceil_div(kShortAnswerBytes, unit.port_bytes);
  return static_cast<double>(
      compile::predict_timeline(network.chip, segments, program.tasks, answer).cycles);
}

bool runs_one_core_program(const ChipConfig& chip) {
  const CardFeatures& features = chip.card.features;
  return features.hand_over != 0 && features.loads_beside_arithmetic != 0;
}

Result<compile::SharedProgram> one_core_shares(const NetworkState& network) {
  const graph::Graph& graph = *network.package.graph;
  TESSERA_TRY(isa::Program program, one_core_program(network));
  std::map<std::string, graph::NodeIndex> nodes;
  for (const graph::Node& node : graph.nodes) {
    nodes.emplace(node.name, static_cast<graph::NodeIndex>(&node - graph.nodes.data()));
  }
  compile::SharedProgram shared;
  for (const isa::LayerHint& hint : program.hints) {
    compile::LayerShare& layer = shared.layers.emplace_back();
    layer.name = hint.name;
    layer.way = compile::ShareWay::kNone;
    const auto found = nodes.find(hint.name);
    if (found == nodes.end()) continue;
    layer.node = found->second;
    const graph::Node& node = graph.nodes[static_cast<std::size_t>(layer.node)];
    if (node.kind() == graph::NodeKind::kHostStep) layer.way = compile::ShareWay::kHost;
  }
  for (const isa::TaskDescriptor& task : program.tasks) {
    compile::LayerShare& layer = shared.layers[task.layer];
    layer.way = compile::ShareWay::kOneCore;
    layer.cores = 1;
    layer.reason = "cores would wait for each other longer than they save";
  }
  shared.card.cores.push_back(std::move(program));
  return shared;
}

Result<compile::SharedProgram> fastest_program(const NetworkState& network, const TeamOfCores& team,
                                               compile::SplitChooser& chooser) {
  return Candidates(network, team, chooser).fastest();
}

}  // namespace tessera::network
