#include "network/prepared_cores.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "compile/split_choice.h"
#include "link/templates.h"
#include "network/card_program.h"
#include "package/weight_pool.h"

namespace tessera::network {
namespace {

using compile::LayerShare;
using compile::SharedProgram;
using isa::PreparedCores;
using isa::PreparedFor;
using isa::PreparedLayer;
using isa::PreparedPrograms;

// Cores 0, 1, ... of each card, as evenly as can be on the cards.
Result<CardPlacement> packed_cores(const ChipConfig& chip, const CoreCount& count) {
  std::vector<int> cores;
  for (int card = 0; card < count.cards; ++card) {
    const int its = count.cores / count.cards + (card < count.cores % count.cards ? 1 : 0);
    for (int core = 0; core < its; ++core) cores.push_back(card * chip.card.cores() + core);
  }
  return place_on(chip, count.cards, std::move(cores));
}

// Programs one after the other, as far as they can be settled.
class Preparation {
 public:
  explicit Preparation(const NetworkState& network)
      : network_(network),
        pool_(network.package.weights.bytes()),
        chooser_(*network.package.graph, network.chip, {.kernels = network.kernels}) {}

  Status add(const CoreCount& count, const CardPlacement& placement) {
    const PreparedFor key = key_of_placement(network_.chip, placement, CoreSplit::kAuto);
    const auto there = std::ranges::find(programs_, key, &PreparedCores::key);
    if (there != programs_.end()) return {};
    auto shared = program_for_cores(network_, placement, CoreSplit::kAuto, 0, &chooser_);
    if (!shared.ok()) {
      return shared.error().with_context(fmt::format("preparing {} cores", count.cores));
    }
    maker_.add(shared->card);
    programs_.push_back(outline(key, std::move(*shared)));
    return {};
  }

  // What the model says of one core, which needs no program of several.
  Status model_one_core() {
    const compile::ShareChoice one = {.cores = 1, .of_nodes = {}};
    TESSERA_TRY(compile::ChosenSplits chosen, chooser_.choose(one));
    one_core_ = std::make_shared<const isa::ModelledCores>(std::move(chosen.model));
    return {};
  }

  std::shared_ptr<const PreparedPrograms> finish() {
    link::TemplateMaker::Made made = maker_.finish();
    auto result = std::make_shared<PreparedPrograms>();
    result->templates = std::move(made.templates);
    result->kernels = pool_.take();
    result->one_core = one_core_;
    for (std::size_t i = 0; i < programs_.size(); ++i) {
      programs_[i].cores = std::move(made.cores[i]);
      programs_[i].owner = made.owner;
      result->programs.push_back(std::make_shared<const PreparedCores>(std::move(programs_[i])));
    }
    return result;
  }

 private:
  // All but the cores' texts.
  PreparedCores outline(const PreparedFor& key, SharedProgram shared) {
    PreparedCores prepared;
    prepared.key = key;
    prepared.dependencies = shared.card.dependency_count();
    prepared.remote_dependencies = shared.card.remote_dependency_count();
    prepared.load_shares = shared.card.share_count();
    prepared.model = shared.model;
    isa::Program& first = prepared.first;
    first = std::move(shared.card.cores.front());
    first.tasks.clear();
    first.stream.clear();
    first.stream_offsets.clear();
    first.pieces.clear();
    first.weights = isa::Weights(isa::Weights(), pool_.add(first.weights.bytes()));
    for (const LayerShare& layer : shared.layers) {
      prepared.layers.push_back({layer.node, static_cast<std::uint8_t>(layer.way), layer.cores,
                                 layer.reason, layer.bytes_read, layer.bytes_written,
                                 static_cast<std::uint8_t>(layer.hand_over)});
    }
    return prepared;
  }

  const NetworkState& network_;
  package::WeightPool pool_;
  compile::SplitChooser chooser_;
  link::TemplateMaker maker_;
  std::vector<PreparedCores> programs_;
  std::shared_ptr<const isa::ModelledCores> one_core_;
};

// Those that the package has, too; descending.
std::vector<CoreCount> all_counts(const NetworkState& network, std::span<const CoreCount> more) {
  std::vector<CoreCount> counts(more.begin(), more.end());
  if (network.package.prepared != nullptr) {
    for (const auto& program : network.package.prepared->programs) {
      counts.push_back({program->key.cores, program->key.cards});
    }
  }
  std::ranges::sort(counts, std::greater());
  counts.erase(std::ranges::unique(counts).begin(), counts.end());
  return counts;
}

}  // namespace

std::vector<CoreCount> usual_core_counts(const ChipConfig& chip) {
  std::vector<CoreCount> counts;
  const int all = chip.card.cores();
  for (int cores = 2; cores < all; cores *= 2) counts.push_back({cores, 1});
  if (all > 1) counts.push_back({all, 1});
  return counts;
}

Result<Network> prepare_cores(const Network& network, std::span<const CoreCount> counts,
                              Watch* watch) {
  const NetworkState& state = network.state();
  TESSERA_RETURN_IF_ERROR(check_package(state, "preparing several cores"));
  const std::vector<CoreCount> all = all_counts(state, counts);
  Preparation preparation(state);
  for (std::size_t i = 0; i < all.size(); ++i) {
    TESSERA_RETURN_IF_ERROR(watched(watch, "cores", static_cast<std::int64_t>(i), std::ssize(all)));
    TESSERA_TRY(const CardPlacement spread, spread_cores(state.chip, all[i].cards, all[i].cores));
    TESSERA_RETURN_IF_ERROR(preparation.add(all[i], spread));
    TESSERA_TRY(const CardPlacement packed, packed_cores(state.chip, all[i]));
    TESSERA_RETURN_IF_ERROR(preparation.add(all[i], packed));
  }
  if (!all.empty()) TESSERA_RETURN_IF_ERROR(preparation.model_one_core());
  TESSERA_RETURN_IF_ERROR(watched(watch, "cores", 1, 1));
  auto prepared = std::make_shared<NetworkState>(state);
  prepared->package.prepared = preparation.finish();
  return Network(std::move(prepared));
}

}  // namespace tessera::network
