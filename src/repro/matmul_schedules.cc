// The four schedules as task lists; see repro/neuron_timing.h.
#include <fmt/format.h>

#include <array>

#include "repro/neuron_timing.h"
#include "repro/task_list.h"

namespace tessera::repro {
namespace {

using isa::BaseIndex;
using isa::BufferSurface;
using isa::Dependency;
using isa::EngineKind;
using isa::TaskId;

constexpr std::int64_t kTileM = 128;  // of lhsT, stationary
constexpr std::int64_t kTileN = 512;  // of rhs, moving: a PSUM bank
constexpr Format kFormat = Format::kBf16;
constexpr std::int64_t kElement = 2;

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

// A place in the state buffer and the tasks that still use what is there.
struct Slot {
  BufferSurface surface;
  std::vector<Dependency> users;
};

class Schedule {
 public:
  Schedule(const ChipConfig& chip, const MatmulShape& shape)
      : chip_(chip), shape_(shape), tasks_(chip) {}

  void in_tiles(std::int64_t tiles_in_block, bool hoisted);
  void in_blocks();
  Result<isa::Program> finish() const {
    if (used_ > chip_.state_buffer.bytes_per_partition) {
      return Error{ErrorCode::kDoesNotFit,
                   fmt::format("the schedule needs {} bytes of a partition of the state buffer, "
                               "which has {}",
                               used_, chip_.state_buffer.bytes_per_partition)};
    }
    const std::int64_t lhs_bytes = kElement * shape_.k * shape_.m;
    isa::Program program =
        tasks_.finish(lhs_bytes + kElement * shape_.k * shape_.n, kElement * shape_.m * shape_.n);
    const auto slot = [](const char* name, const Shape& dims, BaseIndex base, std::int64_t offset) {
      return isa::TensorSlot{.name = name,
                             .format = kFormat,
                             .dims = dims,
                             .address = {base, static_cast<std::uint64_t>(offset)}};
    };
    program.inputs = {slot("lhsT", {shape_.k, shape_.m}, BaseIndex::kInput, 0),
                      slot("rhs", {shape_.k, shape_.n}, BaseIndex::kInput, lhs_bytes)};
    program.outputs = {slot("result", {shape_.m, shape_.n}, BaseIndex::kOutput, 0)};
    return program;
  }

 private:
  Slot slot(const SurfaceShape& shape) {
    Slot slot{dense_surface(chip_, used_, shape), {}};
    used_ += surface_bytes(chip_, shape);
    return slot;
  }
  // Fills the slot with rows [k0, ...) and columns from `column` of lhsT or rhs.
  TaskId load(Slot& slot, bool rhs, std::int64_t k0, std::int64_t column);
  // Products of the slots into `psum`, and from there, added if `add`, into `result`.
  TaskId multiply(const std::array<Dependency, 2>& loaded, Slot& lhs, Slot& rhs, Slot& psum);
  TaskId collect(TaskId product, Slot& psum, Slot& result, bool add);
  void store(Slot& result, TaskId collected, std::int64_t m0, std::int64_t n0);

  const ChipConfig chip_;
  const MatmulShape shape_;
  TaskList tasks_;
  std::int64_t used_ = 0;
};

TaskId Schedule::load(Slot& slot, bool rhs, std::int64_t k0, std::int64_t column) {
  const std::int64_t width = rhs ? shape_.n : shape_.m;
  const std::int64_t base = rhs ? kElement * shape_.k * shape_.m : 0;
  isa::TransferTask task;
  task.dram.address = {BaseIndex::kInput,
                       static_cast<std::uint64_t>(base + kElement * (k0 * width + column))};
  task.dram.strides = {0, kElement * width, kElement * slot.surface.columns, kElement};
  task.buffer = slot.surface;
  task.channel_count = slot.surface.channels;
  const std::uint32_t rows = slot.surface.rows;
  const TaskId id = tasks_.add(EngineKind::kLoad, task, {1, rows, rows}, slot.users);
  slot.users.clear();
  return id;
}

TaskId Schedule::multiply(const std::array<Dependency, 2>& loaded, Slot& lhs, Slot& rhs,
                          Slot& psum) {
  std::vector<Dependency> after(loaded.begin(), loaded.end());
  after.insert(after.end(), psum.users.begin(), psum.users.end());
  psum.users.clear();
  const TaskId id = add_product(tasks_, rhs.surface, lhs.surface, psum.surface, std::move(after));
  lhs.users.push_back(after_all(id, tasks_.steps(id)));
  rhs.users.push_back(after_all(id, tasks_.steps(id)));
  return id;
}

TaskId Schedule::collect(TaskId product, Slot& psum, Slot& result, bool add) {
  isa::PlanarTask task;
  task.mode = isa::PlanarMode::kElementwise;
  task.inputs[0] = psum.surface;
  task.output = result.surface;
  if (add) {
    task.elementwise.binary = true;
    task.inputs[1] = result.surface;
    task.input_count = 2;
  }
  std::vector<Dependency> after = {after_step(product)};
  after.insert(after.end(), result.users.begin(), result.users.end());
  result.users.clear();
  const TaskId id =
      tasks_.add(EngineKind::kPlanar, task, {1, result.surface.rows, 1}, std::move(after));
  psum.users = {after_all(id, tasks_.steps(id))};
  return id;
}

void Schedule::store(Slot& result, TaskId collected, std::int64_t m0, std::int64_t n0) {
  isa::TransferTask task;
  task.dram.address = {BaseIndex::kOutput,
                       static_cast<std::uint64_t>(kElement * (m0 * shape_.n + n0))};
  task.dram.strides = {0, kElement * shape_.n, kElement * result.surface.columns, kElement};
  task.buffer = result.surface;
  task.channel_count = result.surface.channels;
  const std::uint32_t rows = result.surface.rows;
  const TaskId id = tasks_.add(EngineKind::kStore, task, {1, rows, rows},
                               {after_all(collected, tasks_.steps(collected))});
  result.users = {after_all(id)};
}

// All of K at once: two tiles of rhs in turn, one more tile of lhsT than a block has.
void Schedule::in_tiles(std::int64_t tiles_in_block, bool hoisted) {
  const SurfaceShape lhs_shape{
      .channels = u32(shape_.k), .columns = u32(kTileM), .format = kFormat};
  const SurfaceShape rhs_shape{.channels = u32(shape_.k), .columns = u32(kTileN)};
  std::vector<Slot> lhs;
  for (std::int64_t i = 0; i <= tiles_in_block; ++i) lhs.push_back(slot(lhs_shape));
  std::array<Slot, 2> rhs = {slot(rhs_shape), slot(rhs_shape)};
  const SurfaceShape psum_shape{
      .channels = u32(kTileM), .columns = u32(kTileN), .format = Format::kF32};
  const SurfaceShape result_shape{.channels = u32(kTileM), .columns = u32(kTileN)};
  std::array<Slot, 2> psum = {slot(psum_shape), slot(psum_shape)};
  std::array<Slot, 2> result = {slot(result_shape), slot(result_shape)};
  std::size_t next_lhs = 0, next_rhs = 0, next_tile = 0;
  struct Loaded {
    Slot* slot;
    TaskId task;
  };
  const auto load_block = [&](std::int64_t m0) {
    std::vector<Loaded> block;
    for (std::int64_t i = 0; i < tiles_in_block; ++i) {
      Slot& tile = lhs[next_lhs++ % lhs.size()];
      block.push_back({&tile, load(tile, false, 0, m0 + i * kTileM)});
    }
    return block;
  };
  for (std::int64_t m0 = 0; m0 < shape_.m; m0 += tiles_in_block * kTileM) {
    std::vector<Loaded> block;
    for (std::int64_t n0 = 0; n0 < shape_.n; n0 += kTileN) {
      if (block.empty() || !hoisted) block = load_block(m0);
      Slot& moving = rhs[next_rhs++ % 2];
      const TaskId moved = load(moving, true, 0, n0);
      for (std::size_t i = 0; i < block.size(); ++i) {
        Slot& sums = psum[next_tile % 2];
        Slot& out = result[next_tile++ % 2];
        const TaskId product =
            multiply({after_all(block[i].task), after_all(moved)}, *block[i].slot, moving, sums);
        const TaskId collected = collect(product, sums, out, false);
        store(out, collected, m0 + static_cast<std::int64_t>(i) * kTileM, n0);
      }
    }
  }
}

// Blocks of 2048 x 1024 results over 1024 of K; results of a block column stay until K is through.
void Schedule::in_blocks() {
  constexpr std::int64_t kBlockM = 16 * kTileM, kBlockN = 2 * kTileN, kBlockK = 8 * 128;
  constexpr std::int64_t kPartM = 4 * kTileM;  // of a block, in one task
  const std::int64_t parts = shape_.m / kPartM;
  const SurfaceShape result_shape{.channels = u32(kPartM), .rows = 2, .columns = u32(kTileN)};
  SurfaceShape psum_shape = result_shape;
  psum_shape.format = Format::kF32;
  const SurfaceShape rhs_shape{.channels = u32(kBlockK), .rows = 2, .columns = u32(kTileN)};
  const SurfaceShape lhs_shape{.channels = u32(kBlockK), .columns = u32(kBlockM)};
  std::vector<Slot> results;
  for (std::int64_t part = 0; part < parts; ++part) results.push_back(slot(result_shape));
  std::array<Slot, 2> psum = {slot(psum_shape), slot(psum_shape)};
  std::array<Slot, 2> rhs = {slot(rhs_shape), slot(rhs_shape)};
  std::array<Slot, 2> lhs = {slot(lhs_shape), slot(lhs_shape)};
  std::size_t next_lhs = 0, next_rhs = 0, next_psum = 0;
  std::vector<TaskId> collected(results.size());
  for (std::int64_t n0 = 0; n0 < shape_.n; n0 += kBlockN) {
    for (std::int64_t k0 = 0; k0 < shape_.k; k0 += kBlockK) {
      Slot& moving = rhs[next_rhs++ % 2];
      const TaskId moved = load(moving, true, k0, n0);
      for (std::int64_t m0 = 0; m0 < shape_.m; m0 += kBlockM) {
        Slot& block = lhs[next_lhs++ % 2];
        const TaskId loaded = load(block, false, k0, m0);
        for (std::int64_t part = 0; part < kBlockM / kPartM; ++part) {
          Slot stationary = block;
          stationary.users.clear();
          stationary.surface.offset += u32(part * kPartM * kElement);
          stationary.surface.columns = u32(kPartM);
          Slot& sums = psum[next_psum++ % 2];
          const auto at = static_cast<std::size_t>(m0 / kPartM + part);
          const TaskId product =
              multiply({after_all(loaded), after_all(moved)}, stationary, moving, sums);
          block.users.insert(block.users.end(), stationary.users.begin(), stationary.users.end());
          collected[at] = collect(product, sums, results[at], k0 != 0);
        }
      }
    }
    for (std::size_t at = 0; at < results.size(); ++at) {
      store(results[at], collected[at], static_cast<std::int64_t>(at) * kPartM, n0);
    }
  }
}

}  // namespace

Result<isa::Program> matmul_program(const ChipConfig& chip, const MatmulShape& shape,
                                    MatmulSchedule schedule) {
  if (shape.m % 2048 != 0 || shape.n % 1024 != 0 || shape.k % 1024 != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 fmt::format("[{}, {}] x [{}, {}]: allowed are multiples of 2048, 1024 and 1024",
                             shape.m, shape.k, shape.k, shape.n)};
  }
  Schedule list(chip, shape);
  switch (schedule) {
    case MatmulSchedule::kTiled:
      list.in_tiles(1, false);
      break;
    case MatmulSchedule::kHoisted:
      list.in_tiles(1, true);
      break;
    case MatmulSchedule::kBlockFree:
      list.in_tiles(2, true);
      break;
    case MatmulSchedule::kBlockAll:
      list.in_blocks();
      break;
  }
  return list.finish();
}

}  // namespace tessera::repro
