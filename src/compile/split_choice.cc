#include "compile/split_choice.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace tessera::compile {
namespace {

std::vector<Split> cheapest_splits(const SplitModel& model, std::int32_t nodes, bool grids) {
  std::vector<Split> splits;
  for (const std::uint8_t way : cheapest_choice(nodes, model.factors(grids)).ways) {
    splits.push_back(static_cast<Split>(way));
  }
  return splits;
}

}  // namespace

Result<SplitModel> split_model(const graph::Graph& graph, const ChipConfig& chip,
                               const CompileOptions& options, const ShareChoice& base, int cards) {
  TESSERA_TRY(ShareSetting setting, share_setting(chip, options, base));
  setting.choice.of_nodes.clear();
  const auto draft = [&](Split split) {
    setting.choice.split = split;
    return draft_in_any_views(graph, setting);
  };
  const std::size_t ways = base.cores < kGridCoresMin ? kSplitWays - 1 : kSplitWays;
  std::vector<ShareDraft> drafts;
  while (drafts.size() < ways) {
    const bool any_views = setting.options.choose_views;
    auto found = draft(static_cast<Split>(drafts.size()));
    if (!found.ok()) {
      return found.error().with_context(
          fmt::format("compiling '{}' for {} cores", graph.name, base.cores));
    }
    // The views of all are the same.
    if (any_views && !setting.options.choose_views && !drafts.empty()) {
      drafts.clear();
    } else {
      drafts.push_back(std::move(*found));
    }
  }
  return SplitModel(graph, setting, cards, std::move(drafts));
}

Result<ModelledChoice> model_choice(const graph::Graph& graph, const ChipConfig& chip,
                                    const CompileOptions& options, const ShareChoice& choice,
                                    int cards) {
  TESSERA_TRY(ShareSetting setting, share_setting(chip, options, choice));
  auto found = draft_in_any_views(graph, setting);
  if (!found.ok()) {
    return found.error().with_context(
        fmt::format("compiling '{}' for {} cores", graph.name, choice.cores));
  }
  std::vector<ShareDraft> drafts;
  drafts.push_back(std::move(*found));
  const SplitModel model(graph, setting, cards, std::move(drafts));
  const std::vector<Split> only(graph.nodes.size());
  return ModelledChoice{model.run(only), model.costs(only)};
}

Result<ChosenSplits> choose_and_estimate(const graph::Graph& graph, const ChipConfig& chip,
                                         const CompileOptions& options, const ShareChoice& base,
                                         int cards) {
  TESSERA_TRY(const SplitModel model, split_model(graph, chip, options, base, cards));
  const auto nodes = static_cast<std::int32_t>(graph.nodes.size());
  std::vector<Split> of_nodes = cheapest_splits(model, nodes, /*grids=*/false);
  double cycles = model.estimate(of_nodes);
  if (base.cores >= kGridCoresMin) {
    std::vector<Split> with_grids = cheapest_splits(model, nodes, /*grids=*/true);
    const double found = model.estimate(with_grids);
    if (found <= kGridsWorthIt * cycles) {
      of_nodes = std::move(with_grids);
      cycles = found;
    }
  }
  ChosenSplits chosen{base, {}, cycles, 0};
  for (const LayerCost& cost : model.costs(of_nodes)) chosen.waiting += cost.exchange;
  chosen.model = {.cores = base.cores,
                  .cycles = cycles,
                  .load_before_arithmetic = base.load_before_arithmetic,
                  .chosen = {},
                  .layers = model.modelled()};
  for (const Split split : of_nodes) {
    chosen.model.chosen.push_back(static_cast<std::uint8_t>(split));
  }
  chosen.choice.split = Split::kRows;
  chosen.choice.of_nodes = std::move(of_nodes);
  return chosen;
}

Result<ChosenSplits> SplitChooser::choose(const ShareChoice& base, int cards) {
  const Key key{base.cores,
                cards,
                base.memory_of_core,
                {base.share_loads, base.hand_over, base.order_memory, base.meet_after_layers,
                 base.load_before_arithmetic}};
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  TESSERA_TRY(ChosenSplits found, choose_and_estimate(graph_, chip_, options_, base, cards));
  return found_.emplace(key, std::move(found)).first->second;
}

Result<ShareChoice> choose_splits(const std::shared_ptr<const graph::Graph>& graph,
                                  const ChipConfig& chip, const CompileOptions& options,
                                  const ShareChoice& base, int cards) {
  TESSERA_CHECK(graph != nullptr, "no graph");
  TESSERA_TRY(ChosenSplits chosen, choose_and_estimate(*graph, chip, options, base, cards));
  return std::move(chosen.choice);
}

}  // namespace tessera::compile
