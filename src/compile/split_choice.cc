#include "compile/split_choice.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace tessera::compile {

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

Result<ChosenSplits> choose_and_estimate(const graph::Graph& graph, const ChipConfig& chip,
                                         const CompileOptions& options, const ShareChoice& base,
                                         int cards) {
  TESSERA_TRY(const SplitModel model, split_model(graph, chip, options, base, cards));
  const auto nodes = static_cast<std::int32_t>(graph.nodes.size());
  const CheapestChoice cheapest = cheapest_choice(nodes, model.factors());
  ChosenSplits chosen{base, 0, 0};
  chosen.choice.split = Split::kRows;
  chosen.choice.of_nodes.clear();
  for (const std::uint8_t way : cheapest.ways) {
    chosen.choice.of_nodes.push_back(static_cast<Split>(way));
  }
  chosen.cycles = model.estimate(chosen.choice.of_nodes);
  for (const LayerCost& cost : model.costs(chosen.choice.of_nodes)) chosen.waiting += cost.exchange;
  return chosen;
}

Result<ShareChoice> choose_splits(const std::shared_ptr<const graph::Graph>& graph,
                                  const ChipConfig& chip, const CompileOptions& options,
                                  const ShareChoice& base, int cards) {
  TESSERA_CHECK(graph != nullptr, "no graph");
  TESSERA_TRY(ChosenSplits chosen, choose_and_estimate(*graph, chip, options, base, cards));
  return std::move(chosen.choice);
}

}  // namespace tessera::compile
