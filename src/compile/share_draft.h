// The first half of compiling for several cores: what each core does, as tasks that depend on nothing
// yet.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/chip_config.h"
#include "base/result.h"
#include "compile/compile_options.h"
#include "compile/emit.h"
#include "compile/prepare.h"
#include "compile/share_choice.h"
#include "compile/share_plan.h"
#include "compile/share_residency.h"
#include "graph/graph.h"

namespace tessera::compile {

struct ShareDraft {
  Prepared prepared;
  Table<LayerIndex, LayerWork> work;
  HeldStorages held;
  std::vector<EmittedTasks> emitted;  // of each core
  std::int64_t workspace_bytes = 0;
};

// `chip` and `options` as compile_shares() has made them. An error names the layer.
Result<ShareDraft> draft_shares(const graph::Graph& graph, const ChipConfig& chip,
                                const CompileOptions& options, const ShareChoice& choice);

// `chip` as far as the network may use it, and what of `options` there is for several cores.
struct ShareSetting {
  ChipConfig chip;
  CompileOptions options;
  ShareChoice choice;
};
Result<ShareSetting> share_setting(const ChipConfig& chip, const CompileOptions& options,
                                   const ShareChoice& choice);
// draft_shares() of the setting, without chosen views where rows are too long for a small buffer with
// them: then the setting has none either.
Result<ShareDraft> draft_in_any_views(const graph::Graph& graph, ShareSetting& setting);

}  // namespace tessera::compile
