#include "report/card_use.h"

#include <algorithm>

namespace tessera::report {
namespace {

void add_core_row(const EngineUse& engine, CoreUse& core) {
  core.share_cycles += engine.share_cycles;
  if (engine.kind == "load" || engine.kind == "store" || engine.kind == "kernel") {
    core.bytes_moved += engine.dram_bytes_read + engine.dram_bytes_written;
  }
  if (engine.kind == "planar") core.planar += engine.busy;
  if (engine.kind != "neural") return;
  core.array += engine.busy;
  if (engine.index > 0) return;
  core.waits_for_data = engine.blocked_dependency;
  core.waits_for_memory = engine.blocked_memory;
  core.idle = engine.idle;
}

// What the cores have in common.
void add_shared_row(const EngineUse& engine, CardUse& use) {
  const auto at = static_cast<std::size_t>(engine.index);
  const LinkUse wire{engine.busy, engine.wire_bytes};
  if (engine.kind == "dram") {
    use.groups.at(at).memory = {engine.busy, engine.dram_bytes_read + engine.dram_bytes_written};
  } else if (engine.kind == "broadcast") {
    use.groups.at(at).broadcast = wire;
  } else if (engine.kind == "ring") {
    use.groups.at(at).ring = wire;
  } else if (engine.kind == "network_out") {
    use.sent.at(at) = wire;
  } else if (engine.kind == "network_in") {
    use.received.at(at) = wire;
  }
}

}  // namespace

std::vector<std::int64_t> layer_advances(const RunResult& run) {
  std::vector<std::int64_t> advances;
  std::int64_t end = 0;
  for (const LayerUse& layer : run.layers) {
    advances.push_back(std::max<std::int64_t>(0, layer.end - end));
    end = std::max(end, layer.end);
  }
  return advances;
}

CardUse card_use(const RunResult& run, const ChipConfig& chip) {
  CardUse use;
  use.groups_of_card = chip.card.groups;
  for (const CorePlace& place : run.cores) {
    use.cards = std::max(use.cards, place.card + 1);
    use.cores.emplace_back().place = place;
  }
  for (int group = 0; group < use.cards * chip.card.groups; ++group) {
    use.groups.emplace_back().group = group;
  }
  for (std::size_t core = 0; core < run.cores.size(); ++core) {
    use.groups.at(static_cast<std::size_t>(run.cores[core].group)).cores.push_back(core);
  }
  if (use.cards > 1) {
    use.sent.resize(static_cast<std::size_t>(use.cards));
    use.received.resize(static_cast<std::size_t>(use.cards));
  }
  for (const EngineUse& engine : run.engines) {
    if (engine.core >= 0) {
      add_core_row(engine, use.cores.at(static_cast<std::size_t>(engine.core)));
    } else {
      add_shared_row(engine, use);
    }
  }
  for (CoreUse& core : use.cores) {
    core.array /= std::max(1, chip.neural.count);
    core.planar /= std::max(1, chip.planar.count);
  }
  return use;
}

}  // namespace tessera::report
