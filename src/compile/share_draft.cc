#include "compile/share_draft.h"

#include <algorithm>
#include <utility>

#include "compile/dram_order.h"
#include "compile/plan_cores.h"
#include "compile/share_memories.h"

namespace tessera::compile {

Result<ShareDraft> draft_shares(const graph::Graph& graph, const ChipConfig& chip,
                                const CompileOptions& options, const ShareChoice& choice) {
  ShareDraft draft;
  TESSERA_TRY(draft.prepared, prepare(graph, chip, options, choice));
  Prepared& prepared = draft.prepared;
  cut_movement(prepared.storages, choice.cores, prepared.layers);
  const PlanInputs inputs{graph, chip, options, prepared.storages, prepared.layers};
  TESSERA_TRY(draft.workspace_bytes, place_apart(inputs, prepared.addresses));
  TESSERA_TRY(draft.work, share_layers(inputs, choice));
  TESSERA_TRY(CorePlans planned, plan_cores(inputs, draft.work, choice.hand_over));
  const DramOrders orders = choice.order_memory ? DramOrders(inputs, planned.plans) : DramOrders();
  for (const Plan& plan : planned.plans) {
    draft.emitted.push_back(emit_tasks(inputs, plan, prepared.addresses, orders));
  }
  draft.held = std::move(planned.held);
  return draft;
}

Result<ShareSetting> share_setting(const ChipConfig& chip, const CompileOptions& options,
                                   const ShareChoice& choice) {
  ShareSetting setting{{}, options, choice};
  setting.options.resident = setting.options.cascades = false;  // what stays is chosen by core
  setting.choice.hand_over = choice.hand_over && options.resident;
  TESSERA_TRY(setting.chip, bounded_chip(chip, setting.options));
  if (choice.cores > 1) {
    // Passes as long as a kernel's tile takes to load, with some to spare for what does not divide evenly.
    const std::int64_t pixels = 3 * std::int64_t{chip.neural.rows};
    setting.options.step_pixels = std::min<std::int64_t>(chip.neural.psum_bank_columns, pixels);
  }
  return setting;
}

Result<ShareDraft> draft_in_any_views(const graph::Graph& graph, ShareSetting& setting) {
  auto draft = draft_shares(graph, setting.chip, setting.options, setting.choice);
  if (draft.ok() || draft.error().code != ErrorCode::kDoesNotFit || !setting.options.choose_views) {
    return draft;
  }
  setting.options.choose_views = false;
  return draft_shares(graph, setting.chip, setting.options, setting.choice);
}

}  // namespace tessera::compile
