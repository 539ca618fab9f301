#include "compile/share_rooms.h"

#include <algorithm>
#include <array>
#include <variant>

#include "isa/access_map.h"
#include "isa/descriptor_check.h"

namespace tessera::compile {
namespace {

using isa::TaskDescriptor;

// Tasks of a layer are counted by what they do.
enum class TaskRole : std::uint8_t { kLoads, kWork, kStores };
constexpr std::size_t kTaskRoles = 3;

TaskRole role_of(const TaskDescriptor& task) {
  if (task.engine == isa::EngineKind::kLoad) return TaskRole::kLoads;
  return task.engine == isa::EngineKind::kStore ? TaskRole::kStores : TaskRole::kWork;
}

struct Touched {
  std::vector<isa::BufferSpan> read, written;
};

Touched touched_by(const TaskDescriptor& task, std::int64_t partitions) {
  Touched result;
  const auto read = [&](const isa::BufferSurface& surface) {
    result.read.push_back(isa::surface_span(surface, partitions));
  };
  const auto write = [&](const isa::BufferSurface& surface) {
    result.written.push_back(isa::surface_span(surface, partitions));
  };
  if (const auto* neural = std::get_if<isa::NeuralTask>(&task.config)) {
    read(neural->moving);
    if (neural->dynamic) read(neural->stationary);
    if (!neural->psum.keeps) write(neural->output);
  } else if (const auto* planar = std::get_if<isa::PlanarTask>(&task.config)) {
    for (int i = 0; i < planar->input_count; ++i) read(planar->inputs[i]);
    if (planar->continues) read(isa::accumulator_surface(*planar));
    write(planar->keeps ? isa::accumulator_surface(*planar) : planar->output);
  } else if (const auto* transfer = std::get_if<isa::TransferTask>(&task.config)) {
    task.engine == isa::EngineKind::kLoad ? write(transfer->buffer) : read(transfer->buffer);
  }
  return result;
}

class RoomFinder {
 public:
  RoomFinder(const std::vector<TaskDescriptor>& tasks, std::size_t layers, const ChipConfig& chip)
      : tasks_(tasks), partitions_(chip.state_buffer.partitions), counts_(layers), waits_(layers) {
    for (const TaskDescriptor& task : tasks_) {
      positions_.push_back(counts_[task.layer][static_cast<std::size_t>(role_of(task))]++);
    }
  }

  std::vector<std::vector<RoomWait>> run() {
    for (std::size_t i = 0; i < tasks_.size(); ++i) add(i);
    return std::move(waits_);
  }

 private:
  void add(std::size_t index) {
    const Touched touched = touched_by(tasks_[index], partitions_);
    const isa::StepRef self{.task = static_cast<isa::TaskId>(index)};
    std::array<std::size_t, kTaskRoles> latest{};  // task, from 1 on, of those it waits for
    for (const isa::BufferSpan& span : touched.written) {
      map_.write(span.first, span.last, self, [&](const isa::StepRef& before) {
        const TaskDescriptor& other = tasks_[before.task];
        std::size_t& last = latest[static_cast<std::size_t>(role_of(other))];
        if (other.layer != tasks_[index].layer) last = std::max<std::size_t>(last, before.task + 1);
      });
    }
    for (const isa::BufferSpan& span : touched.read) {
      map_.read(span.first, span.last, self, static_cast<isa::GroupIndex>(tasks_[index].engine),
                [](const isa::StepRef&) {});
    }
    for (const std::size_t task : latest) {
      if (task > 0) wait_for(index, task - 1);
    }
  }

  double share(std::size_t index, std::int64_t count) const {
    const TaskDescriptor& task = tasks_[index];
    return static_cast<double>(count) /
           static_cast<double>(counts_[task.layer][static_cast<std::size_t>(role_of(task))]);
  }

  void wait_for(std::size_t index, std::size_t other) {
    const TaskDescriptor& task = tasks_[index];
    const RoomWait wait{.layer = static_cast<LayerIndex>(tasks_[other].layer),
                        .stored = role_of(tasks_[other]) == TaskRole::kStores,
                        .done = share(other, positions_[other] + 1),
                        .loads = role_of(task) == TaskRole::kLoads,
                        .before = share(index, positions_[index])};
    std::vector<RoomWait>& waits = waits_[task.layer];
    const bool known = std::ranges::any_of(waits, [&](const RoomWait& had) {
      return had.layer == wait.layer && had.stored == wait.stored && had.loads == wait.loads &&
             had.before <= wait.before && had.done >= wait.done;
    });
    if (!known) waits.push_back(wait);
  }

  const std::vector<TaskDescriptor>& tasks_;
  const std::int64_t partitions_;
  std::vector<std::array<std::int64_t, kTaskRoles>> counts_;  // of each layer
  std::vector<std::int64_t> positions_;                       // of each task in its layer's
  std::vector<std::vector<RoomWait>> waits_;
  isa::AccessMap map_;
};

}  // namespace

Table<LayerIndex, std::vector<std::vector<RoomWait>>> find_rooms(const ShareDraft& draft,
                                                                 const ChipConfig& chip) {
  const std::size_t layers = draft.prepared.layers.size();
  Table<LayerIndex, std::vector<std::vector<RoomWait>>> rooms(layers);
  for (const EmittedTasks& core : draft.emitted) {
    std::vector<std::vector<RoomWait>> waits = RoomFinder(core.tasks, layers, chip).run();
    for (std::size_t i = 0; i < layers; ++i) {
      rooms[static_cast<LayerIndex>(i)].push_back(std::move(waits[i]));
    }
  }
  return rooms;
}

}  // namespace tessera::compile
