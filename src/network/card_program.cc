#include "network/card_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/quantity.h"
#include "compile/compile.h"
#include "compile/image_cores.h"
#include "compile/split_choice.h"
#include "compile/timeline.h"
#include "isa/verify.h"
#include "link/link.h"
#include "network/prepared_program.h"

namespace tessera::network {

namespace {

// All layers one way, as is asked for or as the architecture's card does it.
CoreSplit split_of(const ChipConfig& chip, CoreSplit split) {
  if (split != CoreSplit::kAuto) return split;
  if (chip.card.features.split == CardSplit::kWidth) return CoreSplit::kRows;
  return chip.card.features.split == CardSplit::kChannels ? CoreSplit::kChannels : split;
}

// Which of a team's cores have a memory in common: those that have in every team.
Result<std::vector<std::uint8_t>> memories_of_team(const std::vector<std::uint8_t>& memories,
                                                   std::size_t of_team) {
  std::vector<std::uint8_t> result;
  std::vector<std::vector<std::uint8_t>> known;  // of a core of each team
  for (std::size_t core = 0; core < of_team; ++core) {
    std::vector<std::uint8_t> its;
    for (std::size_t at = core; at < memories.size(); at += of_team) its.push_back(memories[at]);
    const auto found = std::ranges::find(known, its);
    result.push_back(static_cast<std::uint8_t>(found - known.begin()));
    if (found == known.end()) known.push_back(std::move(its));
  }
  if (std::ssize(known) <= isa::kCardMemoriesMax) return result;
  return Error{ErrorCode::kUnsupported,
               fmt::format("teams of {} of {} cores, which lie in the groups in different ways: {} "
                           "kinds of places, allowed {}; take a number of cores that the groups "
                           "divide",
                           of_team, memories.size(), known.size(), isa::kCardMemoriesMax)};
}

// With the features of the chip's card; `memories` as in isa/card_program.h, of `cards` cards.
compile::ShareChoice choice_for(const ChipConfig& chip, int cores, CoreSplit split,
                                std::vector<std::uint8_t> memories, int cards) {
  const CardFeatures& features = chip.card.features;
  compile::ShareChoice choice{
      .cores = cores,
      .split = split == CoreSplit::kChannels ? compile::Split::kChannels : compile::Split::kRows,
      .of_nodes = {}};
  choice.memory_of_core = std::move(memories);
  // Cards that exchange whole results have them in memory.
  choice.hand_over = features.hand_over != 0 && (features.needed_bytes_only != 0 || cards == 1);
  choice.share_loads = features.merge != 0;
  choice.meet_after_layers = features.instruction_sync == 0;
  choice.load_before_arithmetic = features.loads_beside_arithmetic == 0;
  return choice;
}

// As the package has it; whoever runs several cores alone has not compiled one.
Result<isa::Program> one_core_program(const NetworkState& network) {
  const package::Package& package = network.package;
  if (!package.frames.empty()) return link::link(package, network.chip);
  TESSERA_TRY(const package::Package compiled,
              compile::compile(package.graph, network.chip, {.kernels = network.kernels}));
  return link::link(compiled, network.chip);
}

// The program of one core keeps more than shares do, and waits for nobody: it takes the place of a choice
// that it is no slower than. It is looked at where its array could be done in time.
Status compare_with_one_core(const NetworkState& network, compile::ChosenSplits& best) {
  const ChipConfig& chip = network.chip;
  const graph::Graph& graph = *network.package.graph;
  std::int64_t products = 0;
  for (const graph::Node& node : graph.nodes) products += graph::node_macs(graph, node);
  const double cells = static_cast<double>(chip.neural.rows) * chip.neural.columns *
                       static_cast<double>(chip.neural.count);
  const bool several =
      best.choice.cores > 1;  // else it is what runs, and its time is the network's
  if (several && static_cast<double>(products) / cells > best.cycles) return {};
  TESSERA_TRY(const isa::Program program, one_core_program(network));
  std::vector<std::uint32_t> segments;  // of each task
  for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
    segments.insert(segments.end(), program.segments[s].task_last - program.segments[s].task_first,
                    s);
  }
  const auto cycles =
      static_cast<double>(compile::predict_timeline(chip, segments, program.tasks).cycles);
  if (several && cycles > best.cycles) return {};
  if (!several) {
    best.cycles = best.model.cycles = cycles;
    return {};
  }
  best.choice.cores = 1;
  best.choice.of_nodes.assign(best.choice.of_nodes.size(), compile::Split::kRows);
  best.choice.memory_of_core.clear();
  best.model.cores = 1;
  best.model.layers.clear();
  best.model.chosen.assign(best.model.chosen.size(), 0);
  best.cycles = best.model.cycles = cycles;
  best.waiting = 0;
  return {};
}

// The splits with the least time; of the first cores alone where more would wait for each other longer than
// they save. The memories of the first cores are the first ones.
Result<compile::ChosenSplits> choose(const NetworkState& network, const compile::ShareChoice& all,
                                     int cards, compile::SplitChooser& chooser) {
  constexpr double kWaiting = 0.1;  // of the time, from which on fewer cores are looked at
  TESSERA_TRY(compile::ChosenSplits best, chooser.choose(all, cards));
  double waiting = best.waiting, cycles = best.cycles;
  for (int cores = all.cores; cores > 1 && waiting > kWaiting * cycles;) {
    cores = cards > 1 ? ceil_div(cores, cards) : cores / 2;
    cards = 1;
    compile::ShareChoice fewer =
        choice_for(network.chip, cores, CoreSplit::kAuto, all.memory_of_core, 1);
    if (!fewer.memory_of_core.empty()) fewer.memory_of_core.resize(static_cast<std::size_t>(cores));
    TESSERA_TRY(compile::ChosenSplits found, chooser.choose(fewer));
    waiting = found.waiting;
    cycles = found.cycles;
    if (found.cycles < best.cycles) best = std::move(found);
  }
  TESSERA_RETURN_IF_ERROR(compare_with_one_core(network, best));
  return best;
}

// Cores with nothing to do behind those that the program has.
void add_idle_cores(int cores, const std::vector<std::uint8_t>& memories, isa::CardProgram& card) {
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
  card.cores.resize(static_cast<std::size_t>(cores), idle);
  card.memory_of_core = memories;
}

// The program of one core as the package has it, whose layers may go together and keep more.
Result<compile::SharedProgram> one_core(const NetworkState& network) {
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

Result<compile::SharedProgram> compile_team(const NetworkState& network, int cores, CoreSplit split,
                                            const std::vector<std::uint8_t>& memories, int cards,
                                            compile::SplitChooser* chooser) {
  compile::ShareChoice choice = choice_for(network.chip, cores, split, memories, cards);
  const compile::CompileOptions options{.kernels = network.kernels};
  std::shared_ptr<const isa::ModelledCores> model;
  if (split == CoreSplit::kAuto && cores > 1) {
    compile::SplitChooser own(*network.package.graph, network.chip, options);
    TESSERA_TRY(compile::ChosenSplits chosen,
                choose(network, choice, cards, chooser == nullptr ? own : *chooser));
    choice = std::move(chosen.choice);
    model = std::make_shared<const isa::ModelledCores>(std::move(chosen.model));
  }
  const bool alone = choice.cores == 1 && cores > 1;
  TESSERA_TRY(compile::SharedProgram shared,
              alone
                  ? one_core(network)
                  : compile::compile_shares(network.package.graph, network.chip, options, choice));
  if (choice.cores < cores) add_idle_cores(cores, memories, shared.card);
  shared.model = std::move(model);
  return shared;
}

// As the package has it, or compiled.
Result<compile::SharedProgram> program_for_team(const NetworkState& network, int cores,
                                                CoreSplit split,
                                                const std::vector<std::uint8_t>& memories,
                                                int cards, compile::SplitChooser* chooser) {
  split = split_of(network.chip, split);
  TESSERA_TRY(auto prepared,
              prepared_program(network, key_of_cores(network.chip, cores, split, memories, cards)));
  if (prepared) return std::move(*prepared);
  return compile_team(network, cores, split, memories, cards, chooser);
}

Result<compile::SharedProgram> proved(const NetworkState& network, const CardPlacement& placement,
                                      compile::SharedProgram shared) {
  shared.card.cards = placement.cards;
  const Status status = isa::verify_card_program(shared.card, network.chip);
  if (!status.ok()) return status.error().with_context("'" + network.path + "'");
  return shared;
}

}  // namespace

isa::PreparedFor key_of_placement(const ChipConfig& chip, const CardPlacement& placement,
                                  CoreSplit split) {
  const bool forwards = chip.card.features.forward != 0;
  return key_of_cores(chip, static_cast<int>(placement.core.size()), split_of(chip, split),
                      forwards ? placement.memory : std::vector<std::uint8_t>(), placement.cards);
}

Result<compile::SharedProgram> program_for_cores(const NetworkState& network,
                                                 const CardPlacement& placement, CoreSplit split,
                                                 int cores_per_image,
                                                 compile::SplitChooser* chooser) {
  const auto cores = static_cast<int>(placement.core.size());
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  const CardFeatures& features = network.chip.card.features;
  const int of_team = cores_per_image == 0 ? cores : cores_per_image;
  TESSERA_CHECK(of_team >= 1 && cores % of_team == 0, "{} cores in teams of {}", cores, of_team);
  // Where nothing is forwarded every memory has everything.
  std::vector<std::uint8_t> memories;
  if (features.forward != 0) memories = placement.memory;
  std::vector<std::uint8_t> of_one = memories;
  if (of_team < cores && !memories.empty()) {
    TESSERA_TRY(of_one, memories_of_team(memories, static_cast<std::size_t>(of_team)));
  }
  TESSERA_TRY(compile::SharedProgram shared,
              program_for_team(network, of_team, split, of_one,
                               of_team < cores ? 1 : placement.cards, chooser));
  if (of_team < cores) {
    memories.resize(static_cast<std::size_t>(cores), 0);
    TESSERA_TRY(shared.card,
                compile::repeat_for_images(shared.card, memories, features.merge != 0));
  }
  shared.card.images = cores / of_team;
  return proved(network, placement, std::move(shared));
}

Result<compile::SharedProgram> program_for_ways(const NetworkState& network,
                                                const CardPlacement& placement,
                                                const std::vector<std::uint8_t>& of_nodes) {
  const auto cores = static_cast<int>(placement.core.size());
  TESSERA_RETURN_IF_ERROR(check_package(network, fmt::format("running on {} cores", cores)));
  std::vector<std::uint8_t> memories;
  if (network.chip.card.features.forward != 0) memories = placement.memory;
  compile::ShareChoice choice =
      choice_for(network.chip, cores, CoreSplit::kAuto, std::move(memories), placement.cards);
  const std::size_t nodes = network.package.graph->nodes.size();
  const bool known = std::ranges::all_of(
      of_nodes, [](std::uint8_t way) { return std::size_t{way} < compile::kSplitWays; });
  if (of_nodes.size() != nodes || !known) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("ways of {} nodes, allowed are {} below {}", of_nodes.size(), nodes,
                             compile::kSplitWays)};
  }
  for (const std::uint8_t way : of_nodes) {
    choice.of_nodes.push_back(static_cast<compile::Split>(way));
  }
  TESSERA_TRY(compile::SharedProgram shared,
              compile::compile_shares(network.package.graph, network.chip,
                                      {.kernels = network.kernels}, choice));
  return proved(network, placement, std::move(shared));
}

}  // namespace tessera::network
