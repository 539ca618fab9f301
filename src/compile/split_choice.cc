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
  const bool any_views = setting.options.choose_views;
  auto by_rows = draft(Split::kRows);
  auto by_channels = draft(Split::kChannels);
  // The views of both are the same.
  if (any_views && !setting.options.choose_views) by_rows = draft(Split::kRows);
  const auto context = fmt::format("compiling '{}' for {} cores", graph.name, base.cores);
  if (!by_rows.ok()) return by_rows.error().with_context(context);
  if (!by_channels.ok()) return by_channels.error().with_context(context);
  return SplitModel(graph, setting, cards, std::move(*by_rows), std::move(*by_channels));
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
    chosen.choice.of_nodes.push_back(way == 0 ? Split::kRows : Split::kChannels);
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
