#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "compile/share_memories.h"
#include "isa/load_shares.h"

namespace tessera::compile {
namespace {

using isa::CoreTask;
using isa::EngineKind;
using isa::TaskDescriptor;

// How far apart in a layer equal loads may lie to have one read, as a part of the layer's tasks. The edge of
// two cores' rows is what one of them reads first and the other one last: neither waits for that.
constexpr double kApart = 0.25;

// Equal loads, one of each core at most.
struct Candidate {
  const TaskDescriptor* load = nullptr;
  double place = 0;  // of the load among its core's tasks of the layer, 0 to 1
  std::uint8_t memory = 0;
  std::vector<CoreTask> members;
};

class LoadSharer {
 public:
  LoadSharer(const std::vector<std::uint8_t>& memory_of_core, std::vector<isa::CoreTasks>& cores)
      : memory_of_core_(memory_of_core), cores_(cores), at_(cores.size(), 0) {}

  std::uint32_t run() {
    constexpr auto kNoLayer = std::numeric_limits<std::uint32_t>::max();
    while (true) {
      std::uint32_t layer = kNoLayer;
      for (std::size_t core = 0; core < cores_.size(); ++core) {
        if (at_[core] < cores_[core].tasks.size()) {
          layer = std::min(layer, cores_[core].tasks[at_[core]].layer);
        }
      }
      if (layer == kNoLayer) return shares_;
      share_layer(layer);
    }
  }

 private:
  // What tells most loads apart; the rest isa::same_requests() does.
  using Key = std::tuple<EngineKind, isa::BaseIndex, std::uint64_t, std::uint8_t>;

  std::uint8_t memory_of(const TaskDescriptor& task, std::uint32_t core) const {
    const std::uint8_t source = task.header.memories.source;
    if (source != isa::TaskMemories::kOwn) return source;
    return memory_of_core_.empty() ? std::uint8_t{0} : memory_of_core_[core];
  }
  static Key key_of(const TaskDescriptor& task, std::uint8_t memory) {
    const isa::DramAddress& from = task.engine == EngineKind::kLoad
                                       ? std::get<isa::TransferTask>(task.config).dram.address
                                       : std::get<isa::KernelTask>(task.config).source;
    return {task.engine, from.base, from.offset, memory};
  }

  void share_layer(std::uint32_t layer) {
    std::vector<Candidate> candidates;
    std::multimap<Key, std::size_t> by_key;
    for (std::uint32_t core = 0; core < cores_.size(); ++core) {
      const std::vector<TaskDescriptor>& tasks = cores_[core].tasks;
      const std::size_t first = at_[core];
      std::size_t last = first;
      while (last < tasks.size() && tasks[last].layer == layer) ++last;
      const auto place = [&](std::size_t at) {
        return static_cast<double>(at - first) / static_cast<double>(last - first);
      };
      for (; at_[core] < tasks.size() && tasks[at_[core]].layer == layer; ++at_[core]) {
        const TaskDescriptor& task = tasks[at_[core]];
        if (task.engine != EngineKind::kLoad && task.engine != EngineKind::kKernel) continue;
        add(task, core, place(at_[core]), candidates, by_key);
      }
    }
    // The last task of each core that is in a share.
    std::vector<std::int64_t> last(cores_.size(), -1);
    for (const Candidate& candidate : candidates) accept(candidate, last);
  }

  // To the first candidate that has none of this core.
  void add(const TaskDescriptor& task, std::uint32_t core, double place,
           std::vector<Candidate>& candidates, std::multimap<Key, std::size_t>& by_key) const {
    const std::uint8_t memory = memory_of(task, core);
    const Key key = key_of(task, memory);
    const CoreTask self{core, task.id};
    for (auto [at, end] = by_key.equal_range(key); at != end; ++at) {
      Candidate& candidate = candidates[at->second];
      if (candidate.members.back().core == core || !same_requests(*candidate.load, task)) continue;
      if (std::abs(place - candidate.place) > kApart) continue;
      candidate.members.push_back(self);
      return;
    }
    by_key.emplace(key, candidates.size());
    candidates.push_back({&task, place, memory, {self}});
  }

  // With those members whose shares so far lie before it.
  void accept(const Candidate& candidate, std::vector<std::int64_t>& last) {
    isa::LoadShare share;
    int members = 0;
    const auto fits = [&last](const CoreTask& member) { return last[member.core] < member.task; };
    for (const CoreTask& member : candidate.members) {
      if (!fits(member)) continue;
      share.cores |= std::uint64_t{1} << member.core;
      ++members;
    }
    if (members < 2) return;
    share.number = ++shares_;
    for (const CoreTask& member : candidate.members) {
      if (!fits(member)) continue;
      cores_[member.core].tasks[member.task].header.share = share;
      last[member.core] = member.task;
    }
  }

  const std::vector<std::uint8_t>& memory_of_core_;
  std::vector<isa::CoreTasks>& cores_;
  std::vector<std::size_t> at_;  // of each core: its first task of the layers to come
  std::uint32_t shares_ = 0;
};

}  // namespace

std::uint32_t share_loads(const std::vector<std::uint8_t>& memory_of_core,
                          std::vector<isa::CoreTasks>& cores) {
  return LoadSharer(memory_of_core, cores).run();
}

}  // namespace tessera::compile
