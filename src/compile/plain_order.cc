#include "compile/plain_order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::compile {
namespace {

using isa::CoreTasks;
using isa::Dependency;
using isa::EngineKind;
using isa::TaskDescriptor;
using isa::TaskId;

// On all steps of the task.
Dependency on_all(const TaskDescriptor& task) { return {task.id, 0, 1, task.steps()}; }

bool depends_on(const TaskDescriptor& task, const Dependency& dependency) {
  return std::ranges::find(task.dependencies, dependency) != task.dependencies.end();
}
void wait_for(TaskDescriptor& task, const TaskDescriptor& before) {
  const Dependency dependency = on_all(before);
  if (!depends_on(task, dependency)) task.dependencies.push_back(dependency);
}

// Whether it takes from DRAM what other layers have made.
bool takes_results(const TaskDescriptor& task) {
  if (task.engine == EngineKind::kLoad) return true;
  const auto* copy = std::get_if<isa::CopyTask>(&task.config);
  return copy != nullptr && !copy->fill;
}

class Meetings {
 public:
  explicit Meetings(std::vector<CoreTasks>& cores)
      : cores_(cores), waited_(cores.size(), std::vector<TaskId>(cores.size(), isa::kNoTask)) {
    for (const CoreTasks& core : cores) {
      std::vector<const TaskDescriptor*> stores;
      for (const TaskDescriptor& task : core.tasks) {
        if (task.engine == EngineKind::kStore) stores.push_back(&task);
      }
      stores_.push_back(std::move(stores));
    }
  }

  void run() {
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      for (TaskDescriptor& task : cores_[core].tasks) {
        if (takes_results(task)) meet(core, task);
      }
    }
  }

 private:
  // The last store of the core for a layer before `layer`.
  const TaskDescriptor* last_store(std::size_t core, std::uint32_t layer) const {
    const auto& stores = stores_[core];
    const auto behind = std::ranges::partition_point(
        stores, [layer](const TaskDescriptor* store) { return store->layer < layer; });
    return behind == stores.begin() ? nullptr : *(behind - 1);
  }

  // What the core has waited for before it need not wait for again: its engines take tasks in order.
  void meet(std::size_t core, TaskDescriptor& task) {
    for (std::size_t other = 0; other < cores_.size(); ++other) {
      const TaskDescriptor* store = last_store(other, task.layer);
      if (store == nullptr) continue;
      TaskId& waited = waited_[core][other];
      const bool loads = task.engine == EngineKind::kLoad;
      if (loads && waited != isa::kNoTask && waited >= store->id) continue;
      if (loads) waited = store->id;
      if (other == core) {
        if (store->id < task.id) wait_for(task, *store);
      } else {
        task.remote.push_back({static_cast<std::uint32_t>(other), on_all(*store)});
      }
    }
  }

  std::vector<CoreTasks>& cores_;
  std::vector<std::vector<const TaskDescriptor*>> stores_;  // of each core
  std::vector<std::vector<TaskId>> waited_;                 // by a core's load engine, of each core
};

}  // namespace

void meet_after_layers(std::vector<CoreTasks>& cores) { Meetings(cores).run(); }

void load_before_arithmetic(std::vector<CoreTasks>& cores) {
  for (CoreTasks& core : cores) {
    // Of each kind and set of engines, which are in one order.
    std::map<std::tuple<EngineKind, int, int>, const TaskDescriptor*> last;
    const auto wait = [&last](TaskDescriptor& task, EngineKind engine) {
      for (const auto& [queue, before] : last) {
        if (std::get<EngineKind>(queue) == engine) wait_for(task, *before);
      }
    };
    for (TaskDescriptor& task : core.tasks) {
      if (task.engine == EngineKind::kLoad || task.engine == EngineKind::kKernel) {
        wait(task, EngineKind::kNeural);
        wait(task, EngineKind::kPlanar);
      } else if (task.engine == EngineKind::kNeural || task.engine == EngineKind::kPlanar) {
        wait(task, EngineKind::kLoad);
        wait(task, EngineKind::kKernel);
      }
      const isa::EngineSet& set = task.header.engines;
      last[{task.engine, set.first, set.count}] = &task;
    }
  }
}

}  // namespace tessera::compile
