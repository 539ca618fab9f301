#include "isa/card_traffic.h"

#include <algorithm>
#include <bit>
#include <set>

#include "isa/dma_work.h"
#include "isa/whole_results.h"

namespace tessera::isa {
namespace {

struct Bytes {
  std::int64_t read = 0, written = 0;
};

// Of DRAM, by all steps of a task.
Bytes bytes_of(const TaskDescriptor& task, const ChipConfig& chip) {
  Bytes bytes;
  if (task.engine != EngineKind::kLoad && task.engine != EngineKind::kStore &&
      task.engine != EngineKind::kKernel) {
    return bytes;
  }
  DmaStep step;
  for (std::int64_t i = 0; i < task.steps(); ++i) {
    plan_dma_step(task, i, {}, chip, step);
    const std::int64_t moved = step.runs * step.run_bytes;
    if (step.reads) bytes.read += moved;
    if (step.writes) bytes.written += moved;
  }
  return bytes;
}

class Traffic {
 public:
  Traffic(const CardProgram& program, const CardPlacement& placement, const ChipConfig& chip,
          std::size_t layers)
      : program_(program), placement_(placement), chip_(chip), layers_(layers) {}

  std::vector<LayerTraffic> run() {
    for (std::size_t core = 0; core < program_.cores.size(); ++core) {
      for (const TaskDescriptor& task : program_.cores[core].tasks) add(task, core);
    }
    if (!needed_bytes_only()) add_whole_results();
    return std::move(layers_);
  }

 private:
  int group_of_core(std::size_t core) const {
    return placement_.core[core] / chip_.card.cores_per_group;
  }
  int card_of_core(std::size_t core) const { return group_of_core(core) / chip_.card.groups; }
  // Else cards send each other whole results, and read them in memories of their own.
  bool needed_bytes_only() const { return chip_.card.features.needed_bytes_only != 0; }
  int home_of(std::uint8_t memory, std::size_t core) const {
    if (memory == TaskMemories::kOwn || chip_.card.features.forward == 0) {
      return group_of_core(core);
    }
    const int group = placement_.group[memory], groups = chip_.card.groups;
    return needed_bytes_only() ? group : card_of_core(core) * groups + group % groups;
  }

  void add(const TaskDescriptor& task, std::size_t core) {
    if (task.layer >= layers_.size()) return;
    LayerTraffic& layer = layers_[task.layer];
    const Bytes bytes = bytes_of(task, chip_);
    const int own = group_of_core(core);
    if (bytes.written > 0) {
      layer.written += bytes.written;
      move(own, {home_of(task.header.memories.destination, core)}, bytes.written, layer);
    }
    if (bytes.read == 0) return;
    const int home = home_of(task.header.memories.source, core);
    const LoadShare& share = task.header.share;
    if (share.number == 0 || chip_.card.features.merge == 0) {
      layer.read += bytes.read;
      return move(home, {own}, bytes.read, layer);
    }
    const int card = needed_bytes_only() ? 0 : card_of_core(core);
    if (!seen_.insert({share.number, card}).second) {
      layer.merged += bytes.read;
      return;
    }
    layer.read += bytes.read;
    std::set<int> groups;
    for (std::size_t member = 0; member < program_.cores.size(); ++member) {
      if ((share.cores >> member & 1) == 0) continue;
      if (needed_bytes_only() || card_of_core(member) == card) groups.insert(group_of_core(member));
    }
    move(home, groups, bytes.read, layer);
  }

  // From a group to others, of its card and of others.
  void move(int from, const std::set<int>& to, std::int64_t bytes, LayerTraffic& layer) const {
    const int groups = chip_.card.groups;
    const bool broadcast = chip_.card.features.broadcast != 0;
    std::int64_t hops = 0;
    std::set<int> messages;  // a card each, or a group each
    for (const int group : to) {
      if (group / groups != from / groups) {
        messages.insert(broadcast ? group / groups : group);
        continue;
      }
      const std::int64_t way = (group - from + groups) % groups;
      hops = broadcast ? std::max(hops, way) : hops + way;
    }
    layer.ring += hops * bytes;
    layer.network += std::ssize(messages) * bytes;
  }

  void add_whole_results() {
    std::vector<int> cards;
    for (std::size_t core = 0; core < program_.cores.size(); ++core) {
      cards.push_back(card_of_core(core));
    }
    for (std::size_t segment = 0; segment < program_.cores[0].segments.size(); ++segment) {
      const WholeResults whole(program_, segment, cards);
      for (const WholeResults::Result& result : whole.results()) {
        if (result.layer >= layers_.size()) continue;
        layers_[result.layer].network += std::popcount(result.to) * result.bytes;
      }
    }
  }

  const CardProgram& program_;
  const CardPlacement& placement_;
  const ChipConfig& chip_;
  std::vector<LayerTraffic> layers_;
  std::set<std::pair<std::uint32_t, int>> seen_;  // shares, of each card or of all
};

}  // namespace

std::vector<LayerTraffic> layer_traffic(const CardProgram& program, const CardPlacement& placement,
                                        const ChipConfig& chip, std::size_t layers) {
  return Traffic(program, placement, chip, layers).run();
}

}  // namespace tessera::isa
