#include "compile/share_memories.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "arch/dram_config.h"
#include "base/check.h"
#include "base/quantity.h"
#include "compile/memory_cut.h"
#include "compile/surface_conventions.h"
#include "isa/accesses.h"
#include "isa/card_program.h"

namespace tessera::compile {
namespace {

using isa::BaseIndex;
using isa::EngineKind;
using isa::TaskDescriptor;
using isa::TransferTask;

constexpr std::uint8_t kNowhere = isa::TaskMemories::kOwn;  // what no core writes all memories have

// The memories that have parts of something, a bit each.
using MemorySet = std::uint16_t;
static_assert(isa::kCardMemoriesMax <= 16);
constexpr std::array<MemorySet, 256> kSetOf = [] {
  std::array<MemorySet, 256> sets{};  // kNowhere: none
  for (std::size_t memory = 0; memory < 16; ++memory) {
    sets[memory] = static_cast<MemorySet>(1U << memory);
  }
  return sets;
}();
bool is_one(MemorySet set) { return std::popcount(set) <= 1; }
std::uint8_t the_one(MemorySet set) {
  return set == 0 ? kNowhere : static_cast<std::uint8_t>(std::countr_zero(set));
}

// The memory of each byte of a region, and the memories of each granule, which are looked at first.
class ByteMap {
 public:
  // False if one of them lies in another memory already.
  bool write(std::int64_t first, std::int64_t last, std::uint8_t memory) {
    if (last > std::ssize(memories_)) {
      granules_.resize(static_cast<std::size_t>(ceil_div(last, kGranule)), 0);
      memories_.resize(granules_.size() * kGranule, kNowhere);
    }
    const auto begin = memories_.begin() + first, end = memories_.begin() + last;
    const bool free = std::all_of(
        begin, end, [memory](std::uint8_t at) { return at == kNowhere || at == memory; });
    std::fill(begin, end, memory);
    for (std::int64_t i = first / kGranule; i * kGranule < last; ++i) {
      granules_[static_cast<std::size_t>(i)] |= kSetOf[memory];
    }
    return free;
  }
  // The memories of bytes [first, last). None of them may be written yet where it is one, by bytes
  // beside them.
  MemorySet of(std::int64_t first, std::int64_t last) const {
    last = std::min(last, std::ssize(memories_));
    MemorySet all = 0;
    for (std::int64_t i = first / kGranule; i * kGranule < last; ++i) {
      all |= granules_[static_cast<std::size_t>(i)];
    }
    if (is_one(all)) return all;
    all = 0;
    for (std::int64_t i = first; i < last; ++i)
      all |= kSetOf[memories_[static_cast<std::size_t>(i)]];
    return all;
  }
  void clear() {
    std::ranges::fill(memories_, kNowhere);
    std::ranges::fill(granules_, 0);
  }

 private:
  static constexpr std::int64_t kGranule = 64;  // storages begin at multiples of it
  static_assert(kAlignmentBytes % kGranule == 0);
  std::vector<std::uint8_t> memories_;
  std::vector<MemorySet> granules_;
};

// Consecutive indices that lie in one memory, or each of them in the same ones.
struct MemoryRun {
  std::int64_t first = 0, last = 0;
  MemorySet memories = 0;

  bool one() const { return is_one(memories); }
};
// `patterns`: of indices that lie in several, which parts of them lie where.
std::vector<MemoryRun> runs_of(const std::vector<MemorySet>& memories,
                               const std::vector<std::uint64_t>& patterns = {}) {
  std::vector<MemoryRun> runs;
  const auto goes_on = [&](std::size_t i) {
    if (i == 0) return false;
    if (is_one(memories[i])) return is_one(runs.back().memories | memories[i]);
    if (memories[i] != memories[i - 1]) return false;
    return patterns.empty() || patterns[i] == patterns[i - 1];
  };
  for (std::size_t i = 0; i < memories.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (!goes_on(i)) runs.push_back({at, at, 0});
    runs.back().last = at + 1;
    runs.back().memories |= memories[i];
  }
  return runs;
}
bool all_of_one(const std::vector<MemoryRun>& runs) {
  return std::ranges::all_of(runs, &MemoryRun::one);
}

class MemoryPlacer {
 public:
  MemoryPlacer(const ChipConfig& chip, const StoragePlan& storages, const Addresses& addresses,
               const std::vector<std::uint8_t>& memory_of_core, std::vector<EmittedTasks>& cores)
      : chip_(chip),
        storages_(storages),
        addresses_(addresses),
        memory_of_core_(memory_of_core),
        cores_(cores) {
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
    const auto before = std::distance(whole_.begin(), whole_.find(storage));
    return static_cast<std::uint8_t>(before % memories_);
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
    grids_.clear();
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
    std::map<StorageIndex, CutReads> cut;
    std::map<std::pair<StorageIndex, std::uint32_t>, double> of_layers;  // bytes that each reads
    for (std::size_t core = 0; core < cores_.size(); ++core) {
      for (const TaskDescriptor& task : cores_[core].tasks) {
        const isa::DramAddress* from = source_of(task);
        if (from == nullptr || !placed(from->base) || whole(*from)) continue;
        const std::vector<TaskDescriptor> parts = parts_of(task);
        if (parts.empty() ||
            !std::ranges::all_of(parts, [&](auto& part) { return of_one(part); })) {
          keep_whole(*from);
          continue;
        }
        const StorageIndex storage = storage_at(*from);
        CutReads& reads = cut[storage];
        reads.more.resize(cores_.size(), 0);
        reads.more[core] += std::ssize(parts) - 1;
        of_layers[{storage, task.layer}] += bytes_of(task);
      }
    }
    const auto bytes_in = [&](StorageIndex storage) {
      return static_cast<double>(storages_.storages[storage].bytes());
    };
    for (const auto& [of, bytes] : of_layers) {
      cut[of.first].bytes += std::min(bytes, bytes_in(of.first) * memories_);
    }
    for (const auto& [storage, reads] : cut) {
      const double bytes = bytes_in(storage);
      const auto memories = static_cast<std::size_t>(memories_);
      if (better_in_one_memory(chip_, memories, bytes, reads)) whole_.insert(storage);
    }
  }

  static const isa::DramAddress* source_of(const TaskDescriptor& task) {
    if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
      return copy->fill ? nullptr : &copy->source;
    }
    if (task.engine != EngineKind::kLoad) return nullptr;
    return &std::get<TransferTask>(task.config).dram.address;
  }
  static double bytes_of(const TaskDescriptor& task) {
    if (const auto* copy = std::get_if<isa::CopyTask>(&task.config)) {
      return std::accumulate(copy->extents.begin(), copy->extents.end(),
                             static_cast<double>(copy->element_bytes), std::multiplies<>());
    }
    const auto& transfer = std::get<TransferTask>(task.config);
    return static_cast<double>(std::int64_t{task.bands.images} * task.bands.rows *
                               transfer.channel_count * transfer.buffer.columns *
                               format_bytes(transfer.buffer.format));
  }

  // More runs of a step than are named one by one count as the one range around them, for the proof as well.
  bool of_one(const TaskDescriptor& task) {
    return bytes_of(task) <= kBytesInRuns || is_one(sources_of(task));
  }
  // In runs of an element each, as many as are named.
  static constexpr double kBytesInRuns = isa::kRunsMaxOfCores;

  // The memories that have what a task reads.
  MemorySet sources_of(const TaskDescriptor& task) {
    MemorySet all = 0;
    for (std::int64_t step = 0; step < task.steps() && is_one(all); ++step) {
      accesses_.clear();
      step_dram_accesses(task, step, isa::kRunsMaxOfCores, accesses_);
      for (const isa::Access& access : accesses_) {
        if (!access.write) all |= bytes_[access.base].of(access.first, access.last);
      }
    }
    return all;
  }
  // Of each index of an axis of what is copied.
  std::vector<MemorySet> sources_of_axis(const isa::CopyTask& copy, std::size_t axis) const {
    const ByteMap& bytes = bytes_[copy.source.base];
    std::vector<MemorySet> sets(static_cast<std::size_t>(copy.extents[axis]), 0);
    const std::size_t last = copy.extents.size() - 1;
    const bool runs = axis != last && copy.source_strides[last] == copy.element_bytes;
    const std::size_t axes = runs ? last : last + 1;
    const std::int64_t run = copy.element_bytes * (runs ? copy.extents[last] : 1);
    std::vector<std::int64_t> index(axes, 0);
    auto at = static_cast<std::int64_t>(copy.source.offset);
    for (std::size_t outer = axes; outer > 0;) {
      sets[static_cast<std::size_t>(index[axis])] |= bytes.of(at, at + run);
      for (outer = axes; outer > 0; --outer) {
        const std::size_t i = outer - 1;
        at += copy.source_strides[i];
        if (++index[i] < copy.extents[i]) break;
        at -= copy.source_strides[i] * copy.extents[i];
        index[i] = 0;
      }
    }
    return sets;
  }
  // The copy as copies from one memory each, along the first axis that allows it; empty if none does.
  std::vector<TaskDescriptor> parts_of_copy(const TaskDescriptor& task) {
    const MemorySet all = sources_of(task);
    if (is_one(all)) return {from(task, all)};
    const auto& copy = std::get<isa::CopyTask>(task.config);
    std::vector<TaskDescriptor> parts;
    for (std::size_t axis = 0; axis < copy.extents.size() && parts.empty(); ++axis) {
      const std::vector<MemoryRun> runs = runs_of(sources_of_axis(copy, axis));
      if (!all_of_one(runs)) continue;
      for (const MemoryRun& run : runs) parts.push_back(indices_of(task, axis, run));
    }
    return parts;
  }
  static TaskDescriptor indices_of(const TaskDescriptor& task, std::size_t axis,
                                   const MemoryRun& run) {
    TaskDescriptor part = from(task, run.memories);
    auto& copy = std::get<isa::CopyTask>(part.config);
    copy.source.offset += static_cast<std::uint64_t>(run.first * copy.source_strides[axis]);
    copy.destination.offset +=
        static_cast<std::uint64_t>(run.first * copy.destination_strides[axis]);
    copy.extents[axis] = run.last - run.first;
    part.bands.rows = static_cast<std::uint32_t>(copy.extents[0]);
    part.bands.rows_per_step = std::min(part.bands.rows_per_step, part.bands.rows);
    return part;
  }

  // Of an image of a load, by channel and row: which memories have it.
  struct Grid {
    std::vector<MemorySet> channels, rows;
    std::vector<std::uint64_t> row_patterns;  // by channels
    MemorySet all = 0;
  };
  // Cores that read the same have it made once.
  const Grid& grid_of(const TaskDescriptor& task, std::int64_t image) {
    const auto& transfer = std::get<TransferTask>(task.config);
    const auto& strides = transfer.dram.strides;
    const GridKey key = {
        static_cast<std::int64_t>(transfer.dram.address.base),
        static_cast<std::int64_t>(transfer.dram.address.offset) + image * strides[0],
        strides[1],
        strides[2],
        strides[3],
        transfer.channel_count,
        task.bands.rows,
        transfer.buffer.columns,
        format_bytes(transfer.buffer.format)};
    const auto found = grids_.find(key);
    return found != grids_.end() ? found->second
                                 : grids_.emplace(key, make_grid(task, image)).first->second;
  }
  Grid make_grid(const TaskDescriptor& task, std::int64_t image) const {
    constexpr std::uint64_t kPatternFactor = 0x9E3779B97F4A7C15;  // odd: no two channels meet soon
    const auto& transfer = std::get<TransferTask>(task.config);
    const auto& strides = transfer.dram.strides;
    const ByteMap& bytes = bytes_[transfer.dram.address.base];
    const auto first = static_cast<std::int64_t>(transfer.dram.address.offset) + image * strides[0];
    const std::int64_t element = format_bytes(transfer.buffer.format);
    const std::int64_t columns = transfer.buffer.columns;
    const bool one_run = strides[3] == element;
    const auto row_at = [&](std::int64_t at) {
      if (one_run) return bytes.of(at, at + columns * element);
      MemorySet all = 0;
      for (std::int64_t column = 0; column < columns; ++column, at += strides[3]) {
        all |= bytes.of(at, at + element);
      }
      return all;
    };
    Grid grid;
    grid.channels.assign(transfer.channel_count, 0);
    grid.rows.assign(task.bands.rows, 0);
    grid.row_patterns.assign(task.bands.rows, 0);
    for (std::size_t channel = 0; channel < grid.channels.size(); ++channel) {
      std::int64_t at = first + static_cast<std::int64_t>(channel) * strides[1];
      MemorySet of_channel = 0;
      for (std::size_t row = 0; row < grid.rows.size(); ++row) {
        const MemorySet here = row_at(at);
        grid.rows[row] |= here;
        grid.row_patterns[row] = grid.row_patterns[row] * kPatternFactor + here;
        of_channel |= here;
        at += strides[2];
      }
      grid.channels[channel] = of_channel;
      grid.all |= of_channel;
    }
    return grid;
  }

  // Of each column of the first image.
  std::vector<MemorySet> memories_of_columns(const TaskDescriptor& task) const {
    const auto& transfer = std::get<TransferTask>(task.config);
    const auto& strides = transfer.dram.strides;
    const ByteMap& bytes = bytes_[transfer.dram.address.base];
    const std::int64_t element = format_bytes(transfer.buffer.format);
    std::vector<MemorySet> columns(transfer.buffer.columns, 0);
    for (std::int64_t channel = 0; channel < transfer.channel_count; ++channel) {
      for (std::int64_t row = 0; row < task.bands.rows; ++row) {
        auto at = static_cast<std::int64_t>(transfer.dram.address.offset) + channel * strides[1] +
                  row * strides[2];
        for (MemorySet& column : columns) {
          column |= bytes.of(at, at + element);
          at += strides[3];
        }
      }
    }
    return columns;
  }

  // The load or copy as some from one memory each; empty if it cannot be cut so.
  std::vector<TaskDescriptor> parts_of(const TaskDescriptor& task) {
    if (std::holds_alternative<isa::CopyTask>(task.config)) return parts_of_copy(task);
    if (task.bands.images == 1) return parts_of_image(task);
    MemorySet all = 0;
    for (std::int64_t image = 0; image < task.bands.images && is_one(all); ++image) {
      all |= grid_of(task, image).all;
    }
    if (is_one(all)) return {from(task, all)};
    if (!may_cut(task)) return {};
    std::vector<TaskDescriptor> parts;
    for (std::int64_t image = 0; image < task.bands.images; ++image) {
      std::vector<TaskDescriptor> of_image = parts_of_image(image_of(task, image));
      if (of_image.empty()) return {};
      std::ranges::move(of_image, std::back_inserter(parts));
    }
    return parts;
  }

  std::vector<TaskDescriptor> parts_of_image(const TaskDescriptor& task) {
    const Grid& grid = grid_of(task, 0);
    if (is_one(grid.all)) return {from(task, grid.all)};
    std::vector<TaskDescriptor> parts;
    if (!may_cut(task)) return add_boxes(task, parts) ? parts : std::vector<TaskDescriptor>();
    for (const MemoryRun& run : runs_of(grid.rows, grid.row_patterns)) {
      std::vector<TaskDescriptor> rows;
      for (const MemoryRun& band : bands_of(task, run)) add_rows(task, band, rows);
      for (const TaskDescriptor& of_rows : rows) {
        if (!add_boxes(of_rows, parts)) return {};
      }
    }
    return parts;
  }

  // Parts of whole steps, of about the same size, of rows that lie in several memories each: nobody waits
  // for the last rows of one memory to have the first ones of all.
  static std::vector<MemoryRun> bands_of(const TaskDescriptor& task, const MemoryRun& rows) {
    if (rows.one()) return {rows};
    const std::int64_t steps =
        ceil_div(std::int64_t{task.bands.rows}, std::int64_t{task.bands.rows_per_step});
    const std::int64_t of_band = ceil_div(steps, kBandsOfSeveralMax) * task.bands.rows_per_step;
    std::vector<MemoryRun> bands;
    for (std::int64_t first = rows.first; first < rows.last; first = bands.back().last) {
      const std::int64_t next = (first / of_band + 1) * of_band;
      bands.push_back({first, std::min(next, rows.last), rows.memories});
    }
    return bands;
  }

  // The load in parts of some channels of one memory each, or of some columns, or of some of both; false if
  // that cannot be.
  bool add_boxes(const TaskDescriptor& task, std::vector<TaskDescriptor>& parts) {
    const Grid& grid = grid_of(task, 0);
    if (is_one(grid.all)) {
      parts.push_back(from(task, grid.all));
      return true;
    }
    const std::vector<MemoryRun> channels = runs_of(grid.channels);
    if (!all_of_one(channels) && add_columns(task, parts)) return true;
    for (const MemoryRun& run : channels) {
      const TaskDescriptor part = channels_of(task, run);
      if (run.one()) {
        parts.push_back(part);
      } else if (!add_columns(part, parts)) {
        return false;
      }
    }
    return true;
  }
  bool add_columns(const TaskDescriptor& task, std::vector<TaskDescriptor>& parts) const {
    const std::vector<MemoryRun> columns = runs_of(memories_of_columns(task));
    if (!all_of_one(columns)) return false;
    for (const MemoryRun& run : columns) parts.push_back(columns_of(task, run));
    return true;
  }

  static bool may_cut(const TaskDescriptor& task) {
    return may_cut_rows(std::get<TransferTask>(task.config));
  }
  // `memories`: one, or none, which all have.
  static TaskDescriptor from(TaskDescriptor task, MemorySet memories) {
    if (is_one(memories)) task.header.memories.source = the_one(memories);
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
  // Rows of a ring begin in its first place, or end with its last one.
  static void add_rows(const TaskDescriptor& task, const MemoryRun& run,
                       std::vector<TaskDescriptor>& parts) {
    const std::int64_t ring = std::get<TransferTask>(task.config).buffer.ring_rows;
    for (MemoryRun part = run; part.first < run.last; part.first = part.last) {
      const std::int64_t place = part.first % ring;
      part.last = place == 0 ? run.last : std::min(run.last, part.first + ring - place);
      parts.push_back(rows_of(task, part, place));
    }
  }
  // `place`: that of the first row in the buffer.
  static TaskDescriptor rows_of(const TaskDescriptor& task, const MemoryRun& run,
                                std::int64_t place) {
    TaskDescriptor part = from(task, run.memories);
    auto& transfer = std::get<TransferTask>(part.config);
    isa::BufferSurface& buffer = transfer.buffer;
    const auto rows = static_cast<std::uint32_t>(run.last - run.first);
    transfer.dram.address.offset +=
        static_cast<std::uint64_t>(run.first * transfer.dram.strides[2]);
    buffer.offset += static_cast<std::uint32_t>(place * buffer.row_pitch);
    buffer.rows = part.bands.rows = rows;
    buffer.ring_rows = std::min(buffer.ring_rows, rows);
    part.bands.rows_per_step = std::min(part.bands.rows_per_step, rows);
    return part;
  }
  static TaskDescriptor channels_of(const TaskDescriptor& task, const MemoryRun& run) {
    TaskDescriptor part = from(task, run.memories);
    auto& transfer = std::get<TransferTask>(part.config);
    transfer.dram.address.offset +=
        static_cast<std::uint64_t>(run.first * transfer.dram.strides[1]);
    transfer.channel_first += static_cast<std::uint32_t>(run.first);
    transfer.channel_count = static_cast<std::uint32_t>(run.last - run.first);
    return part;
  }

  static TaskDescriptor columns_of(const TaskDescriptor& task, const MemoryRun& run) {
    TaskDescriptor part = from(task, run.memories);
    auto& transfer = std::get<TransferTask>(part.config);
    transfer.dram.address.offset +=
        static_cast<std::uint64_t>(run.first * transfer.dram.strides[3]);
    transfer.buffer.offset += static_cast<std::uint32_t>(run.first * transfer.buffer.column_pitch);
    transfer.buffer.columns = static_cast<std::uint32_t>(run.last - run.first);
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
        named.numbers.push_back(of.numbers[i]);
      }
    }
    of.tasks = std::move(named.tasks);
    of.segments = std::move(named.segments);
    of.pieces = std::move(named.pieces);
    of.numbers = std::move(named.numbers);
  }
  // The memory beside the core needs no name.
  void set_own(std::uint8_t& memory, std::size_t core) const {
    if (memory == memory_of_core_[core]) memory = isa::TaskMemories::kOwn;
  }

  std::vector<TaskDescriptor> named_of(std::size_t core, TaskDescriptor task) {
    if (const isa::DramAddress* to = destination_of(task)) {
      if (placed(to->base)) task.header.memories.destination = memory_for(*to, core);
    }
    const isa::DramAddress* from = source_of(task);
    if (from == nullptr || !placed(from->base)) return {std::move(task)};
    std::vector<TaskDescriptor> parts = parts_of(task);
    TESSERA_CHECK(!parts.empty(), "a task reads from several memories");
    return parts;
  }

  const ChipConfig& chip_;
  const StoragePlan& storages_;
  const Addresses& addresses_;
  const std::vector<std::uint8_t>& memory_of_core_;
  std::vector<EmittedTasks>& cores_;
  int memories_ = 1;
  std::set<StorageIndex> whole_;  // those that lie in one memory
  isa::ByBase<ByteMap> bytes_;
  // Base, first byte, strides, channels, rows, columns, bytes of an element.
  using GridKey = std::array<std::int64_t, 9>;
  std::map<GridKey, Grid> grids_;
  std::vector<isa::Access> accesses_;
};

}  // namespace

bool may_cut_rows(const isa::TransferTask& load) {
  const isa::BufferSurface& buffer = load.buffer;
  return !buffer.broadcast_images && !buffer.broadcast_rows &&
         (buffer.images == 1 || buffer.ring_rows >= buffer.images * buffer.rows);
}

void place_in_memories(const ChipConfig& chip, const StoragePlan& storages,
                       const Addresses& addresses, const std::vector<std::uint8_t>& memory_of_core,
                       std::vector<EmittedTasks>& cores) {
  if (memory_of_core.empty() || std::ranges::count(memory_of_core, 0) == std::ssize(cores)) return;
  MemoryPlacer(chip, storages, addresses, memory_of_core, cores).run();
}

}  // namespace tessera::compile
