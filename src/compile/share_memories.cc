#include "compile/share_memories.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/check.h"
#include "isa/accesses.h"

namespace tessera::compile {
namespace {

using isa::BaseIndex;
using isa::EngineKind;
using isa::TaskDescriptor;
using isa::TransferTask;

constexpr std::uint8_t kNowhere = isa::TaskMemories::kOwn;  // what no core writes all memories have

// The memory of each byte of a region.
class ByteMap {
 public:
  // False if one of them lies in another memory already.
  bool write(std::int64_t first, std::int64_t last, std::uint8_t memory) {
    if (last > std::ssize(memories_)) {
      memories_.resize(static_cast<std::size_t>(last), kNowhere);
    }
    const auto begin = memories_.begin() + first, end = memories_.begin() + last;
    const bool free = std::all_of(
        begin, end, [memory](std::uint8_t at) { return at == kNowhere || at == memory; });
    std::fill(begin, end, memory);
    return free;
  }
  std::uint8_t at(std::int64_t byte) const {
    return byte < std::ssize(memories_) ? memories_[static_cast<std::size_t>(byte)] : kNowhere;
  }
  void clear() { std::fill(memories_.begin(), memories_.end(), kNowhere); }

 private:
  std::vector<std::uint8_t> memories_;
};

// One of two that hold parts of the same bytes; nothing if they differ.
std::optional<std::uint8_t> together(std::uint8_t a, std::uint8_t b) {
  if (a == kNowhere || a == b) return b;
  return b == kNowhere ? std::optional(a) : std::nullopt;
}

// Consecutive indices that lie in one memory.
struct MemoryRun {
  std::int64_t first = 0, last = 0;
  std::uint8_t memory = kNowhere;
};
// Empty if an index lies in several.
std::vector<MemoryRun> runs_of(const std::vector<std::optional<std::uint8_t>>& memories) {
  std::vector<MemoryRun> runs;
  for (std::size_t i = 0; i < memories.size(); ++i) {
    if (!memories[i]) return {};
    const auto at = static_cast<std::int64_t>(i);
    const auto same = runs.empty() ? std::nullopt : together(runs.back().memory, *memories[i]);
    if (same) {
      runs.back().last = at + 1;
      runs.back().memory = *same;
    } else {
      runs.push_back({at, at + 1, *memories[i]});
    }
  }
  return runs;
}

class MemoryPlacer {
 public:
  MemoryPlacer(const StoragePlan& storages, const Addresses& addresses,
               const std::vector<std::uint8_t>& memory_of_core, std::vector<EmittedTasks>& cores)
      : storages_(storages), addresses_(addresses), memory_of_core_(memory_of_core), cores_(cores) {
    memories_ = 1 + *std::max_element(memory_of_core.begin(), memory_of_core.end());
  }

  void run() {
    std::size_t before = 0;
    do {  // one more storage as a whole each time
      before = whole_.size();
      place_writes();
      if (whole_.size() == before) check_reads();
    } while (whole_.size() != before);
    for (std::size_t core = 0; core < cores_.size(); ++core) name_memories(core);
  }

 private:
  bool placed(BaseIndex base) const {
    return base == BaseIndex::kWorkspace || base == BaseIndex::kOutput;
  }

  // The storage that has the byte.
  StorageIndex storage_at(const isa::DramAddress& address) const {
    for (std::size_t i = 0; i < addresses_.size(); ++i) {
      const auto index = static_cast<StorageIndex>(i);
      const isa::DramAddress& at = addresses_[index];
      if (at.base != address.base || address.offset < at.offset) continue;
      const auto bytes = static_cast<std::uint64_t>(storages_.storages[index].bytes());
      if (address.offset < at.offset + bytes) return index;
    }
    return -1;
  }
  bool whole(const isa::DramAddress& address) const { return whole_.contains(storage_at(address)); }
  // In turn, so that no memory has all of them.
  std::uint8_t memory_of_whole(StorageIndex storage) const {
    return static_cast<std::uint8_t>(storage % memories_);
  }
  void keep_whole(const isa::DramAddress& address) {
    const StorageIndex storage = storage_at(address);
    TESSERA_CHECK(storage >= 0, "no storage has byte {}", address.offset);
    whole_.insert(storage);
  }

  std::uint8_t memory_for(const isa::DramAddress& address, std::size_t core) const {
    const StorageIndex storage = storage_at(address);
    return whole_.contains(storage) ? memory_of_whole(storage) : memory_of_core_[core];
  }

  static const isa::DramAddress* destination_of(const TaskDescriptor& task) {
    if (task.engine != EngineKind::kStore) return nullptr;
    if (const auto* transfer = std::get_if<TransferTask>(&task.config)) {
      return &transfer->dram.address;
    }
    return &std::get<isa::CopyTask>(task.config).destination;
  }

  void place_writes() {
    for (ByteMap& map : bytes_) map.clear();
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      for (const TaskDescriptor& task : cores_[core].tasks) {
        const isa::DramAddress* to = destination_of(task);
        if (to == nullptr || !placed(to->base)) continue;
        const std::uint8_t memory = memory_for(*to, core);
        bool free = true;
        for (std::int64_t step = 0; step < task.steps(); ++step) {
          accesses_.clear();
          step_dram_accesses(task, step, isa::kRunsMaxOfCores, accesses_);
          for (const isa::Access& access : accesses_) {
            if (!access.write) continue;
            if (!bytes_[access.base].write(access.first, access.last, memory)) free = false;
          }
        }
        if (!free && !whole(*to)) keep_whole(*to);
      }
    }
  }

  void check_reads() {
    for (const EmittedTasks& core : cores_) {
      for (const TaskDescriptor& task : core.tasks) {
        if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
          if (!copy->fill && placed(copy->source.base) && !source_of(task)) {
            keep_whole(copy->source);
          }
        } else if (task.engine == EngineKind::kLoad) {
          const auto& transfer = std::get<TransferTask>(task.config);
          const isa::DramAddress& from = transfer.dram.address;
          if (placed(from.base) && !whole(from) && parts_of(task).empty()) keep_whole(from);
        }
      }
    }
  }

  // The memory that has all that a copy reads.
  std::optional<std::uint8_t> source_of(const TaskDescriptor& task) {
    std::optional<std::uint8_t> memory = kNowhere;
    for (std::int64_t step = 0; step < task.steps() && memory; ++step) {
      accesses_.clear();
      step_dram_accesses(task, step, isa::kRunsMaxOfCores, accesses_);
      for (const isa::Access& access : accesses_) {
        if (access.write) continue;
        for (std::int64_t byte = access.first; byte < access.last && memory; ++byte) {
          memory = together(*memory, bytes_[access.base].at(byte));
        }
        if (!memory) break;
      }
    }
    return memory;
  }

  // Of an image of a load, by channel and row: which memory has it.
  struct Grid {
    std::vector<std::optional<std::uint8_t>> channels, rows;
    std::optional<std::uint8_t> all = kNowhere;
  };
  Grid grid_of(const TaskDescriptor& task, std::int64_t image) const {
    const auto& transfer = std::get<TransferTask>(task.config);
    const auto& strides = transfer.dram.strides;
    const ByteMap& bytes = bytes_[transfer.dram.address.base];
    const auto first = static_cast<std::int64_t>(transfer.dram.address.offset) + image * strides[0];
    const std::int64_t to_last = (std::int64_t{transfer.buffer.columns} - 1) * strides[3];
    Grid grid;
    grid.channels.assign(transfer.channel_count, kNowhere);
    grid.rows.assign(task.bands.rows, kNowhere);
    const auto add = [](std::optional<std::uint8_t>& to, std::optional<std::uint8_t> memory) {
      to = to && memory ? together(*to, *memory) : std::nullopt;
    };
    for (std::size_t channel = 0; channel < grid.channels.size(); ++channel) {
      for (std::size_t row = 0; row < grid.rows.size(); ++row) {
        const std::int64_t at = first + static_cast<std::int64_t>(channel) * strides[1] +
                                static_cast<std::int64_t>(row) * strides[2];
        const auto memory = together(bytes.at(at), bytes.at(at + to_last));
        add(grid.channels[channel], memory);
        add(grid.rows[row], memory);
        add(grid.all, memory);
      }
    }
    return grid;
  }

  // The load as loads from one memory each; empty if it cannot be cut so.
  std::vector<TaskDescriptor> parts_of(const TaskDescriptor& task) const {
    if (task.bands.images == 1) return parts_of_image(task);
    std::optional<std::uint8_t> all = kNowhere;
    for (std::int64_t image = 0; image < task.bands.images && all; ++image) {
      const Grid grid = grid_of(task, image);
      all = grid.all ? together(*all, *grid.all) : std::nullopt;
    }
    if (all) return {from(task, *all)};
    if (!may_cut(task)) return {};
    std::vector<TaskDescriptor> parts;
    for (std::int64_t image = 0; image < task.bands.images; ++image) {
      std::vector<TaskDescriptor> of_image = parts_of_image(image_of(task, image));
      if (of_image.empty()) return {};
      std::ranges::move(of_image, std::back_inserter(parts));
    }
    return parts;
  }

  std::vector<TaskDescriptor> parts_of_image(const TaskDescriptor& task) const {
    const Grid grid = grid_of(task, 0);
    if (grid.all) return {from(task, *grid.all)};
    std::vector<TaskDescriptor> parts;
    if (may_cut(task)) {
      for (const MemoryRun& run : runs_of(grid.rows)) parts.push_back(rows_of(task, run));
    }
    if (!parts.empty()) return parts;
    for (const MemoryRun& run : runs_of(grid.channels)) parts.push_back(channels_of(task, run));
    return parts;
  }

  // Whether rows of the load's surface may be named by a surface of their own.
  static bool may_cut(const TaskDescriptor& task) {
    const isa::BufferSurface& buffer = std::get<TransferTask>(task.config).buffer;
    return !buffer.broadcast_images && !buffer.broadcast_rows &&
           buffer.ring_rows >= buffer.images * buffer.rows;
  }
  static TaskDescriptor from(TaskDescriptor task, std::uint8_t memory) {
    task.header.memories.source = memory;
    return task;
  }
  static TaskDescriptor image_of(TaskDescriptor task, std::int64_t image) {
    auto& transfer = std::get<TransferTask>(task.config);
    isa::BufferSurface& buffer = transfer.buffer;
    transfer.dram.address.offset += static_cast<std::uint64_t>(image * transfer.dram.strides[0]);
    buffer.offset += static_cast<std::uint32_t>(image * buffer.rows * buffer.row_pitch);
    buffer.images = task.bands.images = 1;
    return task;
  }
  static TaskDescriptor rows_of(const TaskDescriptor& task, const MemoryRun& run) {
    TaskDescriptor part = from(task, run.memory);
    auto& transfer = std::get<TransferTask>(part.config);
    isa::BufferSurface& buffer = transfer.buffer;
    const auto rows = static_cast<std::uint32_t>(run.last - run.first);
    transfer.dram.address.offset +=
        static_cast<std::uint64_t>(run.first * transfer.dram.strides[2]);
    buffer.offset += static_cast<std::uint32_t>(run.first * buffer.row_pitch);
    buffer.rows = part.bands.rows = rows;
    part.bands.rows_per_step = std::min(part.bands.rows_per_step, rows);
    return part;
  }
  static TaskDescriptor channels_of(const TaskDescriptor& task, const MemoryRun& run) {
    TaskDescriptor part = from(task, run.memory);
    auto& transfer = std::get<TransferTask>(part.config);
    transfer.dram.address.offset +=
        static_cast<std::uint64_t>(run.first * transfer.dram.strides[1]);
    transfer.channel_first += static_cast<std::uint32_t>(run.first);
    transfer.channel_count = static_cast<std::uint32_t>(run.last - run.first);
    return part;
  }

  void name_memories(std::size_t core) {
    EmittedTasks named;
    EmittedTasks& of = cores_[core];
    for (std::size_t i = 0; i < of.tasks.size(); ++i) {
      for (TaskDescriptor& task : named_of(core, std::move(of.tasks[i]))) {
        task.id = static_cast<isa::TaskId>(named.tasks.size());
        set_own(task.header.memories.source, core);
        set_own(task.header.memories.destination, core);
        named.tasks.push_back(std::move(task));
        named.segments.push_back(of.segments[i]);
        named.pieces.push_back(of.pieces[i]);
      }
    }
    of.tasks = std::move(named.tasks);
    of.segments = std::move(named.segments);
    of.pieces = std::move(named.pieces);
  }
  // The memory beside the core needs no name.
  void set_own(std::uint8_t& memory, std::size_t core) const {
    if (memory == memory_of_core_[core]) memory = isa::TaskMemories::kOwn;
  }

  std::vector<TaskDescriptor> named_of(std::size_t core, TaskDescriptor task) {
    if (const isa::DramAddress* to = destination_of(task)) {
      if (placed(to->base)) task.header.memories.destination = memory_for(*to, core);
    }
    if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
      if (!copy->fill && placed(copy->source.base)) {
        const auto memory = source_of(task);
        TESSERA_CHECK(memory.has_value(), "a copy reads from several memories");
        task.header.memories.source = *memory;
      }
    } else if (task.engine == EngineKind::kLoad &&
               placed(std::get<TransferTask>(task.config).dram.address.base)) {
      std::vector<TaskDescriptor> parts = parts_of(task);
      TESSERA_CHECK(!parts.empty(), "a load from several memories");
      return parts;
    }
    return {std::move(task)};
  }

  const StoragePlan& storages_;
  const Addresses& addresses_;
  const std::vector<std::uint8_t>& memory_of_core_;
  std::vector<EmittedTasks>& cores_;
  int memories_ = 1;
  std::set<StorageIndex> whole_;  // those that lie in one memory
  isa::ByBase<ByteMap> bytes_;
  std::vector<isa::Access> accesses_;
};

}  // namespace

void place_in_memories(const StoragePlan& storages, const Addresses& addresses,
                       const std::vector<std::uint8_t>& memory_of_core,
                       std::vector<EmittedTasks>& cores) {
  if (memory_of_core.empty() || std::ranges::count(memory_of_core, 0) == std::ssize(cores)) return;
  MemoryPlacer(storages, addresses, memory_of_core, cores).run();
}

}  // namespace tessera::compile
