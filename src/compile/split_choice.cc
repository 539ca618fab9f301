#include "compile/split_choice.h"

#include <algorithm>
#include <vector>

#include "arch/dram_config.h"
#include "compile/estimate.h"

namespace tessera::compile {
namespace {

// Of each graph node, when it is cut as in `shared`.
std::vector<Cycles> node_cycles(const SharedProgram& shared, const ChipConfig& chip,
                                std::size_t nodes) {
  std::vector<Cycles> slowest(shared.layers.size(), 0);
  for (const isa::Program& program : shared.card.cores) {
    std::vector<isa::Frame> frames(shared.layers.size());
    for (const isa::TaskDescriptor& task : program.tasks) {
      frames[task.layer].tasks.push_back({.descriptor = task, .dependencies = {}, .piece = {}});
    }
    for (std::size_t layer = 0; layer < frames.size(); ++layer) {
      slowest[layer] = std::max(slowest[layer], estimate_frame(frames[layer], chip));
    }
  }
  const double rate = dram_sustained_bytes_per_cycle(chip);
  std::vector<Cycles> cycles(nodes, 0);
  for (std::size_t layer = 0; layer < slowest.size(); ++layer) {
    const LayerShare& share = shared.layers[layer];
    if (share.node < 0) continue;
    const auto bytes = static_cast<double>(share.bytes_read + share.bytes_written);
    cycles[static_cast<std::size_t>(share.node)] +=
        std::max(slowest[layer], static_cast<Cycles>(bytes / rate));
  }
  return cycles;
}

}  // namespace

Result<ShareChoice> choose_splits(const std::shared_ptr<const graph::Graph>& graph,
                                  const ChipConfig& chip, const CompileOptions& options,
                                  int cores) {
  ShareChoice choice{.cores = cores, .split = Split::kRows, .of_nodes = {}};
  TESSERA_TRY(const SharedProgram rows, compile_shares(graph, chip, options, choice));
  choice.split = Split::kChannels;
  TESSERA_TRY(const SharedProgram channels, compile_shares(graph, chip, options, choice));
  const std::size_t nodes = graph->nodes.size();
  const std::vector<Cycles> by_rows = node_cycles(rows, chip, nodes);
  const std::vector<Cycles> by_channels = node_cycles(channels, chip, nodes);
  for (std::size_t node = 0; node < nodes; ++node) {
    choice.of_nodes.push_back(by_channels[node] < by_rows[node] ? Split::kChannels : Split::kRows);
  }
  return choice;
}

}  // namespace tessera::compile
